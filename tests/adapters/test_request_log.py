"""The log of requests: one line each at most, in bulk, and never at a request's expense."""

import asyncio
import json
import logging
from collections.abc import Callable
from itertools import cycle
from threading import Event

import pytest

from penstock.adapters import written_aside
from penstock.adapters.observe.request_log import RequestLog
from penstock.logs import write_lines
from penstock.types import Accepted, Execution, Failure, Outcome, Refusal, Reply, WorkerId


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that writes may be late; here it is always to come to its end."""
    monkeypatch.setattr(written_aside, "CLOSE_SECONDS", 60.0)


def reply(name: str, *, failure: Failure | None = None, tenant: str = "acme") -> Reply:
    request = Accepted("key", "embed", b'"secret"', 1.0, 9.0, 9.0, name, tenant=tenant, tier=1)
    if failure is not None:
        return Reply(request, Outcome.FAILED, failure=failure)
    return Reply(request, Outcome.SUCCESS, b'"secret"', execution=Execution(WorkerId("w/0"), 7, 3, 1.5, 0.25))


class Written:
    """What the log got, and in how many pieces."""

    def __init__(self) -> None:
        self.pieces: list[str] = []

    def write(self, text: str) -> None:
        self.pieces.append(text)

    @property
    def lines(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in "".join(self.pieces).splitlines()]


def logged(
    body: Callable[[RequestLog], None], share: float = 1.0, chance: Callable[[], float] = lambda: 0.0
) -> Written:
    written = Written()

    async def run() -> None:
        log = RequestLog(share, ["free", "paid"], written.write, asyncio.get_running_loop(), chance=chance)
        body(log)
        await asyncio.sleep(0)
        await log.close()

    asyncio.run(run())
    return written


def test_a_line_tells_whose_it_was_how_it_ended_and_how_long_that_took() -> None:
    [line] = logged(lambda log: log.answered([reply("r1")], 2.0)).lines
    assert line.pop("time")
    assert line == {
        "level": "info", "logger": "penstock.requests", "message": "request", "id": "r1", "tenant": "acme",
        "tier": "paid", "model": "embed", "status": "SUCCESS", "latency_ms": 1000.0, "queue_ms": 500.0,
        "batch_size": 3, "worker": "w/0",
    }  # fmt: skip


def test_a_failure_has_its_code_and_not_its_words() -> None:
    written = logged(
        lambda log: log.answered([reply("r1", failure=Failure("BACKEND_FAILED", "secret"))], 2.0)
    )
    [line] = written.lines
    assert (line["status"], line["latency_ms"]) == ("BACKEND_FAILED", 1000.0)
    assert "worker" not in line
    assert "secret" not in written.pieces[0]


def test_a_refusal_has_what_is_known_of_it() -> None:
    def refuse(log: RequestLog) -> None:
        log.refused(Refusal("", "UNAUTHORIZED", "r1", "", 2.0))
        log.refused(Refusal("embed", "QUOTA_EXCEEDED", "r2", "acme", 2.0))

    first, second = logged(refuse).lines
    assert (first["id"], first["status"]) == ("r1", "UNAUTHORIZED")
    assert not {"tenant", "model", "latency_ms"} & set(first)
    assert (second["tenant"], second["model"]) == ("acme", "embed")


def test_what_one_turn_brings_is_written_at_once() -> None:
    def turn(log: RequestLog) -> None:
        for number in range(10):
            log.answered([reply(f"a{number}"), reply(f"b{number}")], 2.0)

    written = logged(turn)
    assert len(written.pieces) == 1
    assert len(written.lines) == 20


def test_a_share_of_requests_and_refusals_is_logged() -> None:
    chance = cycle([0.1, 0.9]).__next__

    def ask(log: RequestLog) -> None:
        log.answered([reply(f"r{number}") for number in range(10)], 2.0)
        for number in range(10):
            log.refused(Refusal("embed", "SERVICE_OVERLOADED", f"x{number}", "", 2.0))

    lines = logged(ask, 0.5, chance).lines
    assert [line["id"] for line in lines] == [f"{kind}{n}" for kind in "rx" for n in range(0, 10, 2)]


def test_a_tenant_that_is_no_unicode_costs_no_line() -> None:
    lines = logged(lambda log: log.answered([reply("r1", tenant="a\ud800"), reply("r2")], 2.0)).lines
    assert [line["id"] for line in lines] == ["r1", "r2"]


def test_nobody_waits_for_who_reads_too_slowly_and_what_is_dropped_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    reads, written = Event(), Written()

    def write(text: str) -> None:
        assert reads.wait(60)
        written.write(text)

    async def body() -> None:
        log = RequestLog(1.0, [], write, asyncio.get_running_loop(), most_waiting=10)
        for number in range(30):
            log.answered([reply(f"r{number}")], 2.0)
            await asyncio.sleep(0)
        assert log.dropped == 20
        reads.set()
        await log.close()

    asyncio.run(body())
    assert [line["id"] for line in written.lines] == [f"r{number}" for number in range(10)]
    assert "lines of requests are missing" in caplog.text


def test_a_log_that_cannot_be_written_ends_nothing() -> None:
    def write(text: str) -> None:
        raise BrokenPipeError

    async def body() -> None:
        log = RequestLog(1.0, [], write, asyncio.get_running_loop())
        log.answered([reply("r1")], 2.0)
        await asyncio.sleep(0)
        await log.close()
        assert log.dropped == 1

    asyncio.run(body())


def test_lines_that_are_ready_go_where_the_log_goes(capsys: pytest.CaptureFixture[str]) -> None:
    from penstock import logs

    ours = logging.getLogger("penstock")
    handlers, level, propagate = list(ours.handlers), ours.level, ours.propagate
    try:
        logs.set_up("info", "json")
        write_lines('{"id": 1}\n{"id": 2}\n')
        assert capsys.readouterr().err == '{"id": 1}\n{"id": 2}\n'
    finally:
        ours.handlers[:], ours.propagate = handlers, propagate
        ours.setLevel(level)
