"""The open loop against a real server that behaves well, badly, or not at all."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import psutil
import uvloop
from rich.console import Console
from tiny_server import Answer, Ask, TinyServer, answer_body

from penstock.bench.load import Load, Run
from penstock.bench.options import parse_server, reach
from penstock.bench.plan import Shape, make_plan
from penstock.bench.progress import Progress

REFUSAL = b'{"error": "SERVICE_OVERLOADED", "message": "later", "request_id": "r"}'


def run_load(
    server: TinyServer,
    *,
    rate: float = 500.0,
    duration: float = 0.1,
    warmup: float = 0.0,
    timeout_ms: int | None = None,
    connections: int = 100,
    patience: float = 60.0,
    started: Callable[[Callable[[], object]], None] | None = None,
    finished: Callable[[Load], None] = lambda load: None,
) -> Run:
    addressed = parse_server(server.url)
    shape = Shape(rate=rate, duration=duration, warmup=warmup, arrivals="uniform", payload_size=64,
                  timeout_ms=timeout_ms)  # fmt: skip

    async def body() -> Run:
        load = Load(make_plan(shape, addressed), reach(addressed), connections=connections, patience=patience)
        if started is not None:
            loop = asyncio.get_running_loop()
            started(lambda: loop.call_soon_threadsafe(load.stop))
        run = await load.run()
        finished(load)
        return run

    return uvloop.run(body())


def test_every_scheduled_request_is_sent_once_and_answered() -> None:
    with TinyServer() as server:
        run = run_load(server)
    assert (run.summary.sent, run.summary.ok, run.summary.errors) == (50, 50, {})
    assert len(server.asks) == 50
    assert len({ask.body for ask in server.asks}) == 50  # no two alike: no cache can help


def test_without_an_admin_plane_batches_are_estimated_from_the_answers() -> None:
    with TinyServer(lambda ask: Answer(body=answer_body(batch_size=5))) as server:
        batch = run_load(server).summary.batch
    assert (batch.count, batch.mean_size, batch.reasons) == (10, 5, {})


def test_nothing_is_sent_before_its_time() -> None:
    with TinyServer() as server:
        outcomes = run_load(server).outcomes
    assert all(sent >= due for sent, due in zip(outcomes.sent, outcomes.times, strict=True))


def test_refusals_are_counted_by_code_and_as_rejected() -> None:
    with TinyServer(lambda ask: Answer(503, REFUSAL) if ask.number % 5 == 0 else Answer()) as server:
        summary = run_load(server).summary
    assert (summary.ok, summary.rejected, summary.errors) == (40, 10, {"SERVICE_OVERLOADED": 10})
    assert summary.rejected_latency_ms.max is not None


def test_an_error_that_does_not_name_itself_is_named_by_its_status() -> None:
    with TinyServer(lambda ask: Answer(500, b"oh")) as server:
        summary = run_load(server).summary
    assert (summary.ok, summary.rejected, summary.errors) == (0, 0, {"HTTP_500": 50})
    assert summary.latency_ms.p50 is None


def test_the_warm_up_is_sent_but_not_counted() -> None:
    with TinyServer() as server:
        run = run_load(server, warmup=0.1)
    assert (len(server.asks), run.summary.sent, run.summary.duration_s) == (100, 50, 0.1)


def test_waiting_for_a_connection_counts_from_the_scheduled_time() -> None:
    with TinyServer(lambda ask: Answer(delay=0.01)) as server:
        run = run_load(server, connections=1)
    outcomes, lateness = run.outcomes, run.summary.generator_lateness_ms
    assert server.connections == 2  # one to see that it is there, one for the load
    assert all(later - earlier >= 0.0099 for earlier, later in pairwise(outcomes.done))
    # 50 answers of 10 ms one after another: the last, due at 0.099 s, cannot have been there before 0.5 s.
    assert outcomes.done[-1] - outcomes.times[-1] >= 0.39
    assert lateness is not None
    assert lateness.max is not None
    assert lateness.max >= 380
    assert "the generator itself was late" in run.summary.warning


def test_connections_are_used_again() -> None:
    with TinyServer() as server:
        run_load(server, connections=3)
    assert server.connections <= 4


def test_a_server_that_closes_after_each_answer_costs_no_request() -> None:
    with TinyServer(lambda ask: Answer(close=True)) as server:
        summary = run_load(server, connections=1).summary
    assert (summary.ok, summary.errors) == (50, {})
    assert server.connections > 25


def test_a_request_lost_on_a_used_connection_is_sent_again() -> None:
    with TinyServer(lambda ask: Answer(hang_up=ask.number == 10)) as server:
        summary = run_load(server, connections=1).summary
    assert (summary.ok, summary.resent) == (50, 1)
    assert server.asks[10].body == server.asks[11].body


def test_a_server_that_hangs_up_on_a_fresh_connection_has_failed_the_request() -> None:
    with TinyServer(lambda ask: Answer(hang_up=True)) as server:
        summary = run_load(server).summary
    assert (summary.ok, summary.errors) == (0, {"DISCONNECTED": 50})


def test_an_answer_that_is_not_http_fails_the_request() -> None:
    with TinyServer(lambda ask: Answer(status=99999)) as server:
        summary = run_load(server).summary
    assert summary.errors == {"DISCONNECTED": 50}


def test_a_server_that_goes_away_is_told_from_one_that_refuses() -> None:
    with TinyServer(lambda ask: Answer(last=ask.number >= 20)) as server:
        summary = run_load(server, connections=1).summary
    assert (summary.ok, summary.rejected, summary.sent) == (20, 0, 50)
    assert set(summary.errors) <= {"CONNECT", "DISCONNECTED"}
    assert summary.errors["CONNECT"] > 0


def test_what_is_never_answered_and_what_never_went_are_told_apart() -> None:
    with TinyServer(lambda ask: Answer(silent=True)) as server:
        summary = run_load(server, connections=2, patience=0.02).summary
    assert summary.errors == {"NO_ANSWER": 2, "NOT_SENT": 48}


def test_answers_after_the_deadline_are_late_and_no_goodput() -> None:
    def respond(ask: Ask) -> Answer:
        return Answer(delay=0.05)

    with TinyServer(respond) as server:
        summary = run_load(server, timeout_ms=10).summary
    assert (summary.ok, summary.late, summary.goodput_rps) == (50, 50, 0)
    assert all(b'"timeout_ms":10}' in ask.body for ask in server.asks)


def test_a_stopped_run_reports_what_it_measured() -> None:
    def started(stop: Callable[[], object]) -> None:
        def respond(ask: Ask) -> Answer:
            if ask.number == 10:
                stop()
            return Answer()

        server.respond = respond

    with TinyServer() as server:
        run = run_load(server, duration=60.0, started=started)
    assert 10 < run.summary.sent < 30_000
    assert run.summary.ok == run.summary.sent == len(server.asks)
    assert run.summary.duration_s == round(run.end, 6) < 60


def test_stopping_twice_waits_for_nobody() -> None:
    def started(stop: Callable[[], object]) -> None:
        def respond(ask: Ask) -> Answer:
            if ask.number == 3:
                stop()
                stop()
            return Answer(silent=ask.number >= 3)

        server.respond = respond

    with TinyServer() as server:
        # On one connection the fourth goes out when the first three have been answered.
        load = run_load(server, duration=60.0, patience=1000.0, connections=1, started=started)
    assert load.summary.ok == 3
    assert load.summary.errors["INTERRUPTED"] == 1
    assert set(load.summary.errors) <= {"INTERRUPTED", "NOT_SENT"}


def test_the_connections_of_the_busiest_moment_are_open_before_the_schedule_starts() -> None:
    counted: list[int] = []

    def respond(ask: Ask) -> Answer:
        if not counted:  # at the clients' end: the server may not have looked at all of them yet
            connections = psutil.Process().net_connections("tcp4")
            counted.append(sum(each.raddr[1:] == (server.port,) for each in connections))
        return Answer()

    with TinyServer(respond) as server:
        run_load(server)
    assert counted[0] >= 50  # all 50 requests come within a moment


def test_a_request_is_sent_again_only_once() -> None:
    with TinyServer(lambda ask: Answer(hang_up=ask.number >= 10)) as server:
        summary = run_load(server, connections=1).summary
    assert (summary.ok, summary.errors) == (10, {"DISCONNECTED": 40})
    assert summary.resent <= 40


def test_progress_shows_counts_and_the_latency_of_the_last_second() -> None:
    lines: list[str] = []
    with TinyServer(lambda ask: Answer(503, REFUSAL) if ask.number == 3 else Answer()) as server:
        run_load(server, finished=lambda load: lines.append(Progress(Console()).line(load)))
    assert "ok 49  rejected 1  p50/p99" in lines[0]
