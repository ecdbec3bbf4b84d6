"""The line of figures on a terminal, made from metrics pages."""

import asyncio
import os
import sys

import pytest

from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.metrics import Metrics
from penstock.cli.console import figures_line
from penstock.gauges import ModelGauges, ServerGauges
from penstock.installation.fetched_figures import fetched
from penstock.server.figures import Pages, Reading, line, read, show


def page(answers: dict[float, int], *, refused: int = 0, queue: int = 0, busy: float = 0.0) -> str:
    """As a server with two workers would give it, after so many answers of so many seconds."""
    metrics = Metrics(["m"])
    for seconds, count in answers.items():
        for _ in range(count):
            metrics.models["m"].latency.observe(seconds)
        metrics.models["m"].succeeded += count
    metrics.refusals["m", "SERVICE_OVERLOADED"] = refused
    gauges = ModelGauges({"paid": queue, "free": 0}, {"idle": 1, "busy": 1, "offline": 0}, busy, 0.5, 10.0)
    return Exposition(metrics, lambda: ServerGauges({"m": gauges})).text().decode()


def reading(at: float, text: str) -> Reading:
    return read(Pages([text], [text], [text]), at)


def test_it_tells_what_happened_since_the_last_one() -> None:
    before = reading(0.0, page({0.7: 1000}, refused=7, busy=3.0))
    now = reading(5.0, page({0.7: 1000, 0.011: 490, 1.9: 10}, refused=17, queue=3, busy=8.0))
    assert line(before, now) == "100/s   p50 11.2 ms   p99 1,862 ms   queue 3   busy 50%   refused 2.0/s"


def test_while_nothing_happens_nothing_is_said() -> None:
    before, now = (reading(at, page({0.1: 10}, busy=1.0)) for at in (0.0, 5.0))
    assert line(before, now) == ""


def test_while_requests_only_wait_that_is_said() -> None:
    before, now = (reading(at, page({}, queue=4, busy=2.0 * at)) for at in (0.0, 5.0))
    assert line(before, now) == "0.0/s   queue 4   busy 100%"


def test_a_process_that_counts_from_zero_again_makes_no_negative_rates() -> None:
    before, now = reading(0.0, page({0.1: 100}, busy=9.0)), reading(5.0, page({0.1: 5}, queue=1))
    assert line(before, now) == "0.0/s   queue 1   busy 0%"


def test_a_latency_beyond_all_bounds_is_told_as_such() -> None:
    before, now = reading(0.0, page({})), reading(5.0, page({90.0: 5}))
    assert line(before, now) == "1.0/s   p50 over 60 s   p99 over 60 s   queue 0   busy 0%"


def test_over_redis_each_figure_is_had_from_those_who_know_it() -> None:
    """A batcher and a worker both count workers."""
    front, batcher, worker = page({0.1: 5}), page({}, queue=2), page({}, busy=1.0)
    found = read(Pages([front, front], [batcher, ""], [worker, worker]), 0.0)
    assert (found.ended, found.queue, found.workers, found.busy_seconds) == (10, 2, 4, 2.0)


def test_it_goes_on_until_cancelled() -> None:
    async def body() -> list[str]:
        said: list[str] = []
        pages = iter([page({0.1: count}) for count in (0, 5, 5, 15)])
        over = asyncio.Event()

        async def fetch() -> Pages:
            text = next(pages, "")
            if not text:
                over.set()
            return Pages([text], [text], [text])

        showing = asyncio.create_task(show(fetch, said.append, every=0.001))
        await over.wait()
        showing.cancel()
        return said

    assert len(asyncio.run(body())) == 2


def test_a_process_that_does_not_answer_is_left_out() -> None:
    assert asyncio.run(fetched(["http://127.0.0.1:1"], "")) == [""]


def test_nobody_is_told_unless_at_a_terminal_and_not_when_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    mine, theirs = os.openpty()
    with os.fdopen(theirs, "w") as terminal, os.fdopen(mine, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stderr", terminal)
        assert figures_line(quiet=True) is None
        say = figures_line(quiet=False)
        assert say is not None
        say("12/s")
        assert b"figures 12/s" in screen.read(100)
        with open(os.devnull, "w") as nobody:  # noqa: PTH123
            monkeypatch.setattr(sys, "stderr", nobody)
            assert figures_line(quiet=False) is None
