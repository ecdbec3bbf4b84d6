"""Over a bus, one batcher decides as the simulator does.

A whole installation (a gateway, a batcher, and a worker with its slots) runs in virtual time beside the simulator's
kernel: same rules, same arrivals, same draws for each batch's time. On this bus nothing takes time. So requests
must take as long as in the simulator, and batches must be as large.

With several workers the batches are not the same one by one: a batcher's timers ring up to a millisecond late. So a
batch that was waited for holds up to a millisecond's arrivals more.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import NamedTuple

import pytest
from town import Town

from penstock.config import Model
from penstock.load.arrivals import poisson
from penstock.load.report import Spread, spread
from penstock.roles.simulation import scenario_of
from penstock.service_model import parse_service
from penstock.sim.kernel import Kernel
from penstock.testing import Answer, Recorder, run_virtual
from penstock.types import Ask, Batch, Outcome, Reply

REQUESTS = 3000
TIMER = 0.001  # seconds by which a batcher's timer may ring late
WARM_UP = 0.3  # the part of the run in which both learn how long batches take


class Case(NamedTuple):
    service: str
    workers: int
    max_batch: int
    rate: float

    @property
    def model(self) -> Model:
        return Model(target=f"sim:{self.service}", workers=self.workers, max_batch=self.max_batch)


class Found(NamedTuple):
    latency: Spread
    batch: float  # mean size


CASES = {
    "light load": Case("100ms,jitter=2%", 6, 32, 300.0),
    "middle load": Case("100ms,jitter=2%", 6, 32, 1000.0),
    "near capacity": Case("100ms,jitter=2%", 6, 32, 1728.0),
    "a curve that grows": Case("a=50ms,b=0.5ms,jitter=2%", 6, 64, 1200.0),
}
ONE_WORKER = Case("a=40ms,knee=16,jitter=2%", 1, 64, 340.0)


class Timed(Recorder):
    """An asker that says how long its answer took."""

    def __init__(self, on_answer: Callable[[float, float], None]) -> None:
        """`on_answer`: called with the time of the question, and how long the answer took."""
        super().__init__()
        self._on_answer, self._time = on_answer, asyncio.get_running_loop().time
        self._asked = self._time()

    def reply(self, reply: Reply) -> None:
        super().reply(reply)
        assert reply.outcome is Outcome.SUCCESS
        self._on_answer(self._asked, self._time() - self._asked)


async def both(case: Case) -> tuple[Found, Found]:
    """What is found in the installation, and in the simulator."""
    service, rng = parse_service(case.service), Random(0)

    def run(batch: Batch) -> Answer:
        if began and town.clock() >= began + warm_up:
            sizes.append(batch.size)
        seconds = service.seconds(batch.size, rng.gauss(0.0, 1.0))
        rng.random()  # by which the simulator tells whether a batch fails
        return Answer(seconds)

    times = poisson(case.rate, REQUESTS / case.rate, Random(1))
    warm_up, began = WARM_UP * times[-1], 0.0
    took, sizes, left, answered = list[float](), list[int](), len(times), asyncio.Event()
    town = Town(run, model=case.model)
    gateway = await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    began = town.clock()

    def ask() -> None:
        gateway.gateway.submit(Ask(b'"1"', "double"), Timed(note))

    def note(asked: float, seconds: float) -> None:
        nonlocal left
        left -= 1
        if asked - began >= warm_up:
            took.append(seconds)
        if not left:
            answered.set()

    for at in times:
        town.loop.call_at(began + at, ask)
    await answered.wait()
    await town.stop()
    simulated = Kernel(scenario_of(town.config, "double")).run(times, warmup=warm_up)
    return (
        Found(spread(took), sum(sizes) / len(sizes)),
        Found(spread(simulated.latencies), simulated.batched / simulated.batches),
    )


@pytest.mark.parametrize("name", CASES)
def test_over_a_bus_requests_wait_as_long_as_in_the_simulator(name: str) -> None:
    found, simulated = run_virtual(both(CASES[name]))
    for figure in ("mean", "p95", "p99"):
        assert getattr(found.latency, figure) == pytest.approx(getattr(simulated.latency, figure), rel=0.01)
    assert found.batch == pytest.approx(simulated.batch, rel=0.01, abs=TIMER * CASES[name].rate)


def test_with_one_worker_nothing_is_waited_for_and_over_a_bus_all_is_as_in_the_simulator() -> None:
    found, simulated = run_virtual(both(ONE_WORKER))
    assert found.batch == simulated.batch
    assert found.latency.mean == pytest.approx(simulated.latency.mean, rel=1e-6)
    assert found.latency.max == pytest.approx(simulated.latency.max, rel=1e-6)
