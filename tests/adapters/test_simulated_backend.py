"""The simulated GPU as a backend."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import pytest
import uvloop

from penstock.adapters.backends import simulated
from penstock.adapters.backends.simulated import SimulatedBackend
from penstock.errors import BackendCrashed, BatchRejected
from penstock.ports import Backend
from penstock.service_model import parse_service
from penstock.types import Batch, Reason, Request, Result


def batch_of(*inputs: bytes, number: int = 1) -> Batch:
    requests = [Request(f"k{i}", "m", text, 0.0, 9.0, 9.0) for i, text in enumerate(inputs)]
    return Batch(number, "m", b"", requests, Reason.FULL, 0.0)


def run(body: Coroutine[Any, Any, None]) -> None:
    uvloop.run(body)


async def started(text: str, seed: int = 0) -> SimulatedBackend:
    backend = SimulatedBackend(parse_service(text), seed)
    await backend.start()
    return backend


async def outcome(backend: SimulatedBackend, batch: Batch) -> str:
    try:
        result = await backend.run(batch)
    except (BatchRejected, BackendCrashed) as error:
        if isinstance(error, BackendCrashed):
            await backend.start()
        return type(error).__name__
    return str(len(result.outputs) - batch.size)


def test_it_is_a_backend() -> None:
    backend: Backend = SimulatedBackend(parse_service("sim:0ms"))
    assert backend


def test_each_input_comes_back_as_its_output() -> None:
    async def body() -> None:
        backend = await started("sim:0ms")
        result = await backend.run(batch_of(b'"a"', b'{"x": 1}', b"3"))
        assert result.outputs == [b'"a"', b'{"x": 1}', b"3"]

    run(body())


def test_no_time_means_an_answer_without_giving_the_loop_a_turn() -> None:
    async def body() -> None:
        backend = await started("sim:0ms")
        turns: list[int] = []
        asyncio.get_running_loop().call_soon(turns.append, 1)
        await backend.run(batch_of(b"1"))
        assert turns == []

    run(body())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_batch_is_never_answered_before_its_time(runner: Any) -> None:
    async def body() -> None:
        backend = await started("sim:a=3.3ms,b=0.4ms")
        for size in range(1, 20):
            before = time.monotonic()
            await backend.run(batch_of(*[b"1"] * size))
            assert time.monotonic() - before >= 0.0033 + 0.0004 * size

    runner(body())


def test_a_second_batch_begins_when_the_first_has_ended() -> None:
    async def body() -> None:
        backend = await started("sim:20ms")
        first = asyncio.create_task(backend.run(batch_of(b"1")))
        await asyncio.sleep(0)
        assert (await backend.run(batch_of(b"2"))).outputs == [b"2"]
        assert first.done()
        assert (await first).outputs == [b"1"]

    run(body())


def test_a_cancelled_batch_leaves_the_gpu_free() -> None:
    async def body() -> None:
        backend = await started("sim:20ms")
        cancelled = asyncio.create_task(backend.run(batch_of(b"1")))
        await asyncio.sleep(0)
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await backend.run(batch_of(b"2"))).outputs == [b"2"]

    run(body())


def test_a_hanging_batch_ends_only_when_it_is_cancelled() -> None:
    async def body() -> None:
        backend = await started("sim:0ms,hang=100%")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await backend.run(batch_of(b"1"))

    run(body())


@pytest.mark.parametrize(
    ("fault", "ends"),
    [("fail", "BatchRejected"), ("crash", "BackendCrashed"), ("garbage", "1"), ("short", "-1")],
)
def test_faults_come_on_demand(fault: str, ends: str) -> None:
    async def body() -> None:
        backend = await started(f"sim:0ms,{fault}=100%")
        assert await outcome(backend, batch_of(b"1", b"2")) == ends

    run(body())


def test_after_a_crash_it_must_be_started_again() -> None:
    async def body() -> None:
        backend = await started("sim:0ms,crash=100%")
        for call in (backend.run(batch_of(b"1")), backend.probe(), backend.run(batch_of(b"1"))):
            with pytest.raises(BackendCrashed):
                await call
        await backend.start()
        await backend.probe()
        await backend.close()
        await backend.close()

    run(body())


def test_a_poisonous_input_fails_its_batch_and_no_other() -> None:
    async def body() -> None:
        backend = await started("sim:0ms,poison=arsenic")
        assert await outcome(backend, batch_of(b'"wine"', b'"old arsenic"')) == "BatchRejected"
        assert await outcome(backend, batch_of(b'"wine"')) == "0"

    run(body())


def test_the_same_seed_gives_the_same_faults_and_another_worker_has_others() -> None:
    async def history(seed: int) -> list[str]:
        backend = await started("sim:0ms,fail=20%,crash=20%,short=20%,seed=3", seed)
        return [await outcome(backend, batch_of(b"1")) for _ in range(50)]

    async def body() -> None:
        assert await history(1) == await history(1) != await history(2)

    run(body())


def test_the_result_is_a_plain_result_without_a_version() -> None:
    async def body() -> None:
        backend = await started("sim:0ms")
        result = await backend.run(batch_of(b"1"))
        assert isinstance(result, Result)
        assert result.version == ""

    run(body())


def test_the_first_batch_of_each_size_is_dear_until_it_is_started_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waits: list[float] = []

    async def passes(seconds: float) -> None:
        waits.append(seconds)

    monkeypatch.setattr(simulated, "_wait", passes)

    async def body() -> None:
        backend = await started("sim:15ms,new_shape=80ms")
        for batch in (batch_of(b"1"), batch_of(b"1", b"2"), batch_of(b"3")):
            await backend.run(batch)
        await backend.close()
        await backend.start()
        await backend.run(batch_of(b"1"))

    run(body())
    assert waits == pytest.approx([0.095, 0.095, 0.015, 0.095])
