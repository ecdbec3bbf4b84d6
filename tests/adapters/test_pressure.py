"""How full a backend says it is: a function in its own process, and an endpoint."""

import asyncio
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from http_kit import answer, backend_for, batch_of, echo, handler_of, serving
from process_kit import batch

from penstock.adapters.backends.http import HttpShape
from penstock.adapters.backends.pressure import Memory, as_share
from penstock.adapters.backends.process import ProcessBackend, StartFailed
from penstock.types import Result

pytestmark = pytest.mark.usefixtures("patient_processes")

ECHO = """
def echo(inputs):
    return inputs
"""


def module(folder: Path, text: str) -> str:
    file = folder / "model.py"
    file.write_text(ECHO + textwrap.dedent(text))
    return f"{file}:echo"


def said(
    target: str, *inputs: str, between: Callable[[], object] = lambda: None, **options: Any
) -> list[float]:
    """What it says after each batch of one, and then twice when asked."""

    async def body() -> list[float]:
        backend = ProcessBackend(target, name="slot-0", **options)
        await backend.start()
        try:
            numbers = [(await backend.run(batch(text))).pressure for text in inputs]
            numbers.append(await backend.probe())
            between()
            return [*numbers, await backend.probe()]
        finally:
            await backend.close()

    return asyncio.run(body())


# A function in its own process


@pytest.mark.parametrize("prefix", ["", "async "])
def test_a_function_with_a_pressure_beside_it_is_as_full_as_that_says(tmp_path: Path, prefix: str) -> None:
    level = tmp_path / "level"
    level.write_text("0.95")
    target = module(
        tmp_path,
        f"""
        from pathlib import Path

        {prefix}def echo(inputs):
            return inputs

        def pressure():
            return float(Path({str(level)!r}).read_text())
        """,
    )
    assert said(target, "a", between=lambda: level.write_text("40")) == [0.95, 0.95, 0.4]


def test_a_function_that_says_nothing_is_not_full(tmp_path: Path) -> None:
    assert said(module(tmp_path, ""), "a", "b") == [0.0] * 4


@pytest.mark.parametrize(
    "text",
    [
        "pressure = 0.95",
        "def pressure(volume, temperature): return 0.95",
        "def pressure(): return 1 / 0",
        "def pressure(): return None",
        "def pressure(): return float('nan')",
    ],
)
def test_a_pressure_that_is_something_else_or_fails_counts_as_nothing_and_costs_no_batch(
    tmp_path: Path, text: str
) -> None:
    assert said(module(tmp_path, text), "a") == [0.0] * 3


def test_a_pressure_that_fails_is_told_of_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said(module(tmp_path, "def pressure(): return 1 / 0"), "a", "b")
    assert capfd.readouterr().err.count("ZeroDivisionError") == 1


def test_an_async_pressure_is_refused_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartFailed, match="write it as a plain function"):
        said(module(tmp_path, "async def pressure(): return 0.5"))


def test_what_a_process_holds_of_its_memory_limit_counts_and_cycles_do_not(tmp_path: Path) -> None:
    limit = 512 << 20
    target = module(
        tmp_path,
        """
        def echo(inputs):
            if inputs == ["fill"]:
                cycle = [bytearray(400 << 20)]
                cycle.append(cycle)
            return inputs
        """,
    )
    first, filled, asked, _ = said(target, "a", "fill", memory_limit=limit)
    assert first < 0.5
    assert filled > 0.75
    assert asked < 0.5


FAKE_TORCH = """
    import sys
    import types

    LEVELS = iter({levels})

    def mem_get_info():
        return 100 - next(LEVELS), 100

    sys.modules["torch"] = types.SimpleNamespace(cuda=types.SimpleNamespace(
        is_initialized=lambda: True, mem_get_info=mem_get_info,
        memory_stats_as_nested_dict=lambda: {{
            "reserved_bytes": {{"all": {{"current": 30}}}}, "allocated_bytes": {{"all": {{"current": 20}}}},
        }},
    ))
"""


def test_the_memory_of_a_gpu_counts_less_what_pytorch_keeps_for_later(tmp_path: Path) -> None:
    target = module(tmp_path, FAKE_TORCH.format(levels=[50, 50, 95, 97, 70, 60, 61]))
    # Two readings after the first batch, which shows what it takes at rest; two when asked, around a collection.
    assert said(target, "a", "b") == pytest.approx([0.5, 0.85, 0.7, 0.61])


@pytest.mark.parametrize(
    ("levels", "counts"), [([0.7, 0.95], 0.95), ([0.85, 0.95], 0.0), ([None, 0.95], 0.0)]
)
def test_memory_that_the_first_batch_takes_was_taken_on_purpose(
    levels: Sequence[float | None], counts: float
) -> None:
    left = list(levels)
    memory = Memory(lambda: left.pop(0) if len(left) > 1 else left[0])
    assert Memory(lambda: 0.95).taken() == 0.0  # before the first batch nobody knows
    memory.learn()
    assert memory.taken() == counts
    memory.learn()
    assert memory.taken() == counts


@pytest.mark.parametrize(
    ("value", "share"),
    [(0.5, 0.5), ("0.5", 0.5), (1, 1.0), (95, 0.95), ("95", 0.95), ("0.5 %", 0.005), (-3, 0.0), (400, 1.0)],
)
def test_a_share_may_be_written_as_a_percentage(value: object, share: float) -> None:
    assert as_share(value) == pytest.approx(share)


# An endpoint


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("meta.gpu", 0.91),
        ("meta.words", 0.0),
        ("meta.none", 0.0),
        ("header:X-Gpu-Memory", 0.92),
        ("header:X-Other", 0.0),
        ("", 0.0),
    ],
)
def test_how_full_an_endpoint_is_is_taken_from_the_body_or_a_header(place: str, found: float) -> None:
    def respond() -> web.Response:
        body = {"outputs": [1], "meta": {"gpu": 0.91, "words": "rather full"}}
        return web.json_response(body, headers={"X-Gpu-Memory": "92"})

    result = answer(handler_of(respond), batch_of(b"1"), HttpShape(pressure=place))
    assert isinstance(result, Result)
    assert result.pressure == pytest.approx(found)


@pytest.mark.parametrize("place", ["gpu.memory", "header:X-Gpu-Memory"])
def test_the_health_of_an_endpoint_tells_how_full_it_is_too(place: str) -> None:
    async def health(_: web.Request) -> web.Response:
        return web.json_response({"gpu": {"memory": 0.93}}, headers={"X-Gpu-Memory": "0.93"})

    async def body() -> None:
        shape = HttpShape(health="/health", pressure=place)
        async with serving(echo, health) as url, backend_for(url, shape) as backend:
            assert await backend.probe() == pytest.approx(0.93)
        async with serving(echo, health) as url, backend_for(url, HttpShape(pressure=place)) as backend:
            assert await backend.probe() == 0.0  # a connection does not tell

    asyncio.run(body())
