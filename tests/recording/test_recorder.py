"""The recorder of arrivals: what is written of a request, and what is not."""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from threading import Event

import pytest

from penstock.adapters.recording.file import HEADER, RecordFile
from penstock.adapters.recording.recorder import MOST_TENANTS, Recorder, as_text
from penstock.types import Accepted, Execution, Failure, Outcome, Refusal, Reply, WorkerId

SECRET = "xyzzy-4711"
START = 1_767_225_600.0  # 2026-01-01


def reply(
    arrival: float, *, tenant: str = SECRET, cost: float = 1.0, cached: bool = False, bad: bool = False
) -> Reply:
    request = Accepted(
        SECRET, "it", b'"' + SECRET.encode() * 4 + b'"', arrival, 9.0, 9.0, tenant=tenant, tier=1, cost=cost
    )
    execution = Execution(WorkerId("w"), 1, 1, 1.0, 0.1, cached=cached)
    if bad:
        return Reply(request, Outcome.FAILED, failure=Failure("BACKEND_FAILED", SECRET))
    return Reply(request, Outcome.SUCCESS, SECRET.encode(), execution=execution)


def refusal(code: str, tenant: str = "other") -> Refusal:
    return Refusal("it", code, SECRET, tenant, 2.0)


def recorded(path: Path, ask: Callable[[Recorder], None]) -> list[str]:
    async def body() -> None:
        recorder = Recorder(
            RecordFile(path, 1 << 20), ["enterprise", "paid"], asyncio.get_running_loop(), lambda: 5.0,
            wall_clock=lambda: START + 5.0,
        )  # fmt: skip
        ask(recorder)
        await recorder.close()
        assert recorder.dropped == 0

    asyncio.run(body())
    text = path.read_text()
    assert SECRET not in text
    assert text.startswith(HEADER)
    return text.removeprefix(HEADER).splitlines()


def test_a_line_has_times_and_sizes_and_nothing_that_anybody_said(tmp_path: Path) -> None:
    lines = recorded(
        tmp_path / "arrivals.csv",
        lambda it: it.answered([reply(1.25), reply(1.5, cost=700.0, tenant="b"), reply(2.0, bad=True)], 3.0),
    )
    assert lines == [
        "2026-01-01 00:00:01.2500000,10,42,10,0,paid,it",
        "2026-01-01 00:00:01.5000000,700,42,10,1,paid,it",
        "2026-01-01 00:00:02.0000000,10,42,0,0,paid,it",
    ]


def test_what_the_cache_answered_is_no_load_and_what_found_no_room_is(tmp_path: Path) -> None:
    def ask(recorder: Recorder) -> None:
        recorder.answered([reply(1.0, cached=True)], 3.0)
        for code in (
            "SERVICE_OVERLOADED",
            "DEADLINE_EXCEEDED",
            "QUOTA_EXCEEDED",
            "UNACCEPTABLE",
            "UNAUTHORIZED",
        ):
            recorder.refused(refusal(code))

    lines = recorded(tmp_path / "arrivals.csv", ask)
    assert set(lines) == {"2026-01-01 00:00:02.0000000,,,,0,,it"}
    assert len(lines) == 2


def test_a_tenant_is_a_number_and_there_are_only_so_many(tmp_path: Path) -> None:
    lines = recorded(
        tmp_path / "arrivals.csv",
        lambda it: it.answered([reply(1.0, tenant=f"t{n}") for n in range(MOST_TENANTS + 5)], 3.0),
    )
    found = [int(line.split(",")[4]) for line in lines]
    assert found == [*range(MOST_TENANTS), *[MOST_TENANTS] * 5]


def test_a_model_with_a_comma_in_its_name_is_one_field() -> None:
    assert as_text([(0.0, 4, 4, 1.0, 0, "", 'a,"b"')], START).endswith('0,,"a,""b"""\n')


def test_a_slow_disk_costs_lines_and_holds_up_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, goes_on = RecordFile(tmp_path / "arrivals.csv", 1 << 20), Event()
    write = file.write

    def slow(text: str) -> None:
        assert goes_on.wait(60)
        write(text)

    monkeypatch.setattr(file, "write", slow)

    async def body() -> None:
        recorder = Recorder(file, [], asyncio.get_running_loop(), lambda: 5.0, most_waiting=10)
        for _ in range(30):
            recorder.answered([reply(1.0)], 2.0)
            await asyncio.sleep(0)
        assert recorder.dropped == 20
        goes_on.set()
        await recorder.close()
        assert (recorder.recorded, recorder.dropped) == (10, 20)

    with caplog.at_level(logging.WARNING):
        asyncio.run(body())
    assert "the disk is too slow" in caplog.text


def test_a_full_disk_is_told_and_ends_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RecordFile(tmp_path / "arrivals.csv", 1 << 20)

    def full(text: str) -> None:
        file.trouble = "No space left on device"
        raise OSError(28, file.trouble)

    monkeypatch.setattr(file, "write", full)

    async def body() -> None:
        recorder = Recorder(file, [], asyncio.get_running_loop(), lambda: 5.0)
        recorder.answered([reply(1.0)], 2.0)
        await recorder.close()
        assert (recorder.recorded, recorder.dropped) == (0, 1)

    asyncio.run(body())
    assert "No space left on device" in caplog.text
