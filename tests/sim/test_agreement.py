"""The embedded server and the simulator make the same decisions on the same schedule.

The server's own loops (gateway, broker, pump, slots) run here in virtual time beside the simulator's kernel:
same rules, same arrivals, same draws for each batch's time and fault. Every batch must go at the same moment,
to the same worker, with the same members, for the same reason; every request must end the same way.

One thing is left out on purpose. Where two events fall on exactly the same instant, a server takes them in one
turn of its loop and decides once, while the kernel takes them one by one. So the schedules are Poisson and the
service times carry at least a little jitter: no two events coincide. Whatever makes a slot start its backend
anew (crashes, hangs, many failures in a row) is left out as well, since the kernel stands for any server there: it
says that a worker is back after a second.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

from penstock.adapters.memory import MemoryResultBus
from penstock.config import Config, Model, Retries, Tiers
from penstock.core.policy import POLICIES
from penstock.core.queued import Sealed
from penstock.errors import BatchRejected, Refused
from penstock.from_config.tiers import tier_names
from penstock.load.arrivals import poisson
from penstock.ports import Observer
from penstock.roles.model import ModelStack
from penstock.roles.simulation import scenario_of
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.runtime.wheel import Wheel
from penstock.service_model import Fault, NewShapes
from penstock.sim.kernel import Kernel, Scenario, askers
from penstock.testing import Answer, MockBackend, Recorder, run_virtual
from penstock.types import Ask, Batch, Reply, WorkerId

MODEL = "sim"  # so that the server names its workers as the kernel does
SAME = 1e-9  # seconds
LATE = "DEADLINE_EXCEEDED"


class Sent(NamedTuple):
    """One batch that went to a worker."""

    at: float
    worker: str
    members: list[str]
    reason: str
    retry: bool
    ahead: bool


@dataclass
class Log:
    """What was decided, and how each request ended: its code, and when it was served if it was in time."""

    sent: list[Sent] = field(default_factory=list)
    served_at: dict[str, float] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)

    def dispatched(self, at: float, worker: WorkerId, batch: Batch) -> None:
        assert isinstance(batch, Sealed)
        members = [request.request_id or request.key for request in batch.requests]
        self.sent.append(Sent(at, worker, members, batch.reason, batch.retry, batch.ahead))

    def replied(self, at: float, reply: Reply) -> None:
        name = reply.request.request_id or reply.request.key
        assert name not in self.served_at
        assert name not in self.failed
        if reply.failure is not None:
            self.failed[name] = reply.failure.code
        elif at > reply.request.deadline:
            self.failed[name] = LATE  # a server's waiter gives up within a tick of its wheel
        else:
            self.served_at[name] = at


def simulate(scenario: Scenario, schedule: Sequence[float]) -> Log:
    log = Log()
    run = Kernel(scenario, log.dispatched, log.replied).run(schedule)
    ended = Counter(log.failed.values())
    log.refused = run.errors - ended
    return log


class Gpus:
    """The service model of all workers of a server; draws in the order the kernel does."""

    def __init__(self, scenario: Scenario) -> None:
        self._service = scenario.service
        self._rng = Random(scenario.seed)

    def answer(self, new_shapes: NewShapes, batch: Batch) -> Answer:
        service, rng = self._service, self._rng
        seconds = service.seconds(batch.size, rng.gauss(0.0, 1.0)) + new_shapes.seconds(batch.size)
        match service.fault(rng.random()):
            case None:
                return Answer(seconds)
            case Fault.GARBAGE:
                return Answer(seconds, outputs=(b"1",) * (batch.size + 1))
            case Fault.SHORT:
                return Answer(seconds, outputs=(b"1",) * (batch.size - 1))
            case _:
                return Answer(seconds, error=BatchRejected("the backend refused the batch"))


class Logged(Recorder):
    """An asker that tells the log when it was answered, and how."""

    def __init__(self, log: Log) -> None:
        super().__init__()
        self._log = log

    def reply(self, reply: Reply) -> None:
        super().reply(reply)
        self._log.replied(asyncio.get_running_loop().time(), reply)


async def serve(config: Config, scenario: Scenario, schedule: Sequence[float], timeout: float | None) -> Log:
    loop = asyncio.get_running_loop()
    log, bus, wheel, gpus = Log(), MemoryResultBus(), Wheel(loop, loop.time), Gpus(scenario)
    stack = ModelStack(
        MODEL, config, bus, Watching(log), loop, loop.time, lambda model, worker, error: None,
        make_backend=lambda slot: MockBackend(
            partial(gpus.answer, NewShapes(scenario.service)), runs_ahead=True
        ),
        timer_grain=0.0,
    )  # fmt: skip
    tasks = TaskStore(wheel, loop.time, loop.time, max_tasks=1, max_bytes=1, ttl=1.0)
    gateway = Gateway({MODEL: stack.desk}, tenant_of, tasks, wheel, Observer(), loop.time, map(str, count(1)))
    bus.subscribe(gateway.waiters.settle)
    running = [asyncio.create_task(slot.run()) for slot in stack.served.slots]
    who = askers(scenario)

    def arrive(index: int) -> None:
        tenant, tier = next(who)
        try:
            gateway.submit(
                Ask(b'""', client_id=f"{tenant}/{tier}", timeout=timeout, request_id=str(index)), Logged(log)
            )
        except Refused as refused:
            log.refused[refused.code] += 1

    for index, at in enumerate(schedule):
        loop.call_at(at, arrive, index)
    await asyncio.sleep(schedule[-1] + 0.001)
    assert await gateway.drained(60.0)
    assert not any(slot.restarts for slot in stack.served.slots), (
        "choose a case in which no backend is started anew"
    )
    for task in running:
        task.cancel()
    await asyncio.wait(running)
    stack.served.pump.close()
    wheel.close()
    return log


class Watching(Observer):
    """Tells the log when a batch begins: one that was handed over ahead, when the one before it has ended."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        self._log.dispatched(asyncio.get_running_loop().time(), worker, batch)


def tenant_of(client_id: str | None, identity: object) -> tuple[str, int]:
    if client_id is None:
        return "", 0
    tenant, _, tier = client_id.partition("/")
    return tenant, int(tier)


def setting(
    *,
    policy: str = "paced",
    service: str = "a=100ms,jitter=1%",
    workers: int = 6,
    max_batch: int = 32,
    timeout: float | None = None,
    order: str = "weighted",
    shares: tuple[float, ...] = (1.0,),
    tenants: int = 1,
    breaker_failures: int = 5,
    seed: int = 0,
    hurry: bool = False,
    **model: Any,
) -> tuple[Config, Scenario]:
    """One configuration, as the server and as the kernel take it."""
    levels = Tiers().levels
    if hurry:
        levels = {**levels, "free": replace(levels["free"], queue_timeout=0.3, request_timeout=0.35)}
    config = Config(
        models={MODEL: Model(f"sim:{service}", workers=workers, max_batch=max_batch, policy=policy, **model)},
        tiers=Tiers(order=order, levels=levels),
        retries=Retries(breaker_failures=breaker_failures),
    )
    by_tier = dict(zip(tier_names(config), shares, strict=False)) if len(shares) > 1 else None
    scenario = scenario_of(config, MODEL, shares=by_tier, timeout=timeout, tenants=tenants, seed=seed)
    return config, scenario


CASES: dict[str, tuple[float, dict[str, Any]]] = {
    **{
        f"{policy} at {rate}/s": (rate, {"policy": policy})
        for policy in POLICIES
        for rate in (10, 300, 1000, 1728)
    },
    "a curve that grows": (900, {"service": "a=50ms,b=0.5ms,jitter=3%", "max_batch": 100}),
    "a curve with a knee": (1500, {"service": "a=20ms,knee=16,jitter=3%", "max_batch": 64, "workers": 2}),
    "one worker": (200, {"workers": 1}),
    **{
        f"{policy} with padded sizes at {rate}/s": (
            rate,
            {
                "policy": policy,
                "service": "a=20ms,knee=16,jitter=3%",
                "workers": 2,
                "max_batch": 48,
                "batch_sizes": "powers",
            },
        )
        for policy in POLICIES
        for rate in (150, 1000)
    },
    "a list of sizes, and batches that fail": (
        600,
        {
            "service": "a=60ms,b=2ms,jitter=5%,fail=5%,garbage=2%,short=2%",
            "workers": 4,
            "max_batch": 48,
            "timeout": 1.0,
            "batch_sizes": (3, 10, 48),
        },
    ),
    "sizes that are dear at first": (600, {"service": "15ms,new_shape=80ms,jitter=3%", "workers": 2}),
    "workers in reserve": (800, {"reserve": 2}),
    "twice the capacity": (3840, {"timeout": 0.2, "service": "a=100ms,jitter=10%"}),
    "strict tiers under overload": (
        3840,
        {"timeout": 0.2, "service": "a=100ms,jitter=10%", "order": "strict", "shares": (0.2, 0.3, 0.5)},
    ),
    "weighted tiers and tenants under overload": (
        2500,
        {"timeout": 0.4, "service": "a=100ms,jitter=10%", "shares": (0.2, 0.3, 0.5), "tenants": 5},
    ),
    "tiers that are refused at their depths": (
        200,
        {"workers": 1, "max_batch": 8, "service": "a=100ms,jitter=10%", "shares": (0.1, 0.4, 0.5)},
    ),
    "a best tier that needs nearly all": (
        200,
        {"workers": 1, "max_batch": 8, "shares": (0.36, 0.3, 0.34), "timeout": 0.6},
    ),
    "tiers with limits of their own": (
        150,
        {"workers": 1, "max_batch": 8, "shares": (0.4, 0.4, 0.2), "hurry": True},
    ),
    "batches that fail": (600, {"service": "a=100ms,jitter=5%,fail=5%,garbage=2%,short=2%", "timeout": 1.0}),
    "batches that fail under overload": (
        2500,
        {"service": "a=100ms,jitter=5%,fail=5%", "timeout": 0.3, "shares": (0.2, 0.8)},
    ),
    "breakers that open": (
        300,
        {"service": "a=50ms,jitter=5%,fail=20%", "timeout": 2.0, "breaker_failures": 2},
    ),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("case", CASES)
def test_server_and_simulator_decide_alike(case: str, seed: int) -> None:
    rate, options = CASES[case]
    config, scenario = setting(seed=seed, **options)
    schedule = poisson(rate, min(5.0, 1500 / rate), Random(seed))
    simulated, served = (
        simulate(scenario, schedule),
        run_virtual(serve(config, scenario, schedule, options.get("timeout"))),
    )
    for ours, theirs in zip(served.sent, simulated.sent, strict=True):
        assert ours[1:] == theirs[1:]
        assert ours.at == pytest.approx(theirs.at, abs=SAME)
    assert served.failed == simulated.failed
    assert served.served_at == pytest.approx(simulated.served_at, abs=SAME)
    assert served.refused == simulated.refused
    assert len(served.served_at) + len(served.failed) + served.refused.total() == len(schedule)


def test_the_cases_show_every_reason_every_ending_and_retries() -> None:
    """Else the agreement would say little."""
    seen: set[str] = set()
    for rate, options in CASES.values():
        _, scenario = setting(seed=1, **options)
        log = simulate(scenario, poisson(rate, min(5.0, 1500 / rate), Random(1)))
        seen |= {sent.reason for sent in log.sent} | {"retry" for sent in log.sent if sent.retry}
        seen |= {"ahead" for sent in log.sent if sent.ahead}
        seen |= set(log.failed.values()) | set(log.refused)
    assert seen >= {"full", "due", "idle", "retry", "ahead", LATE, "BACKEND_FAILED", "SERVICE_OVERLOADED"}
