"""Others do not notice that lines are run: their 99th percentile stays within 2 %, in virtual time. What runs is
real: the runner, its pace, the batcher, the pump and the slots; only workers and clients are played."""

import asyncio
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from jobs_kit import Asked, House, TestLines
from runtime_kit import Station, ask

from penstock.jobs import Said, Slack
from penstock.runtime.jobs.shelf import JobBounds
from penstock.runtime.slot import Slot
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Reply, WorkerId

SECONDS = 300.0
LINE = "batch_req_"


def service(batch: Batch) -> Answer:
    return Answer(0.02 + 0.002 * batch.size)


class WithLines(TestLines):
    """Lines that are run as requests of the lowest tier."""

    def __init__(self, offer: Callable[[Asked], None]) -> None:
        super().__init__()
        self.answer = offer  # type: ignore[method-assign, assignment]


def play(workers: int, rate: float, folder: Path | None) -> tuple[list[float], int]:
    """Others ask at this rate. Returns their latencies, and how many lines were run beside them; with no folder
    there are no lines."""
    latencies: list[float] = []
    lines = 0

    async def body() -> None:
        nonlocal lines
        loop = asyncio.get_running_loop()
        station = Station(MockBackend(service), policy="paced", max_batch=32)
        slots = [
            Slot(
                WorkerId(f"model/{n}"), MockBackend(service), station.pump, loop.time, processing_limit=3.0,
                first_batch_limit=120.0, start_limit=120.0, health_interval=5.0,
                on_started=lambda worker, error: None, warm=True,
            )
            for n in range(1, workers)
        ]  # fmt: skip
        waiting: dict[str, Asked] = {}

        def offer(asked: Asked) -> None:
            request = ask(loop.time())
            request.tier, request.request_id, request.background = 2, asked.name, True
            waiting[asked.name] = asked
            station.send(request)

        def slack(model: str | None) -> Slack:
            fleet = station.pump.batcher.fleet
            return Slack(station.pump.batcher.waiting, fleet.idle, fleet.healthy)

        def deliver(replies: Sequence[Reply]) -> None:
            nonlocal lines
            for reply in replies:
                assert reply.failure is None
                asked = waiting.pop(reply.request.request_id, None)
                if asked is None:
                    latencies.append(loop.time() - reply.request.arrival)
                else:
                    lines += 1
                    asked.answered(Said(200, b"1"))
            if house is not None:
                house.service.runner.answered(replies, loop.time())

        house: House | None = None
        station.deliver = deliver
        tasks = [asyncio.create_task(slot.run()) for slot in slots]
        async with station.running():
            if folder is None:
                await others(station, rate)
            else:
                house = House(folder, WithLines(offer), JobBounds(max_lines=10**6), slack)
                async with house.open():
                    await house.job(20_000)
                    await others(station, rate)
        for task in tasks:
            task.cancel()
        await asyncio.wait([asyncio.create_task(asyncio.sleep(0)), *tasks])

    async def others(station: Station, rate: float) -> None:
        chance = random.Random(5)
        loop = asyncio.get_running_loop()
        begin = at = loop.time()
        while at < begin + SECONDS:
            at += chance.expovariate(rate)
            await asyncio.sleep(at - loop.time())
            station.send(ask(loop.time()))
        await asyncio.sleep(5.0)

    run_virtual(body())
    return latencies, lines


def p99(latencies: Sequence[float]) -> float:
    return sorted(latencies)[int(0.99 * len(latencies))]


@pytest.mark.parametrize(("workers", "rate"), [(1, 5.0), (1, 20.0), (4, 20.0), (4, 60.0)])
def test_others_do_not_notice_that_lines_are_run(workers: int, rate: float, tmp_path: Path) -> None:
    alone, _ = play(workers, rate, None)
    beside, lines = play(workers, rate, tmp_path)
    assert len(alone) == len(beside)
    assert p99(beside) == pytest.approx(p99(alone), rel=0.02)
    assert lines > 50, "and yet lines are run"
