"""Short names for the core's tests: requests, batchers, and a time that is moved by hand."""

from itertools import count

from penstock.core.batcher import Batcher
from penstock.core.buffer import Buffer, Depth, TierRules
from penstock.core.effects import Effects
from penstock.core.ordered import Ordered
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.types import Accepted, Failure, Outcome, Result, Seconds, WorkerId

REFUSED = Failure("BACKEND_FAILED", "the backend refused the batch", splittable=True)
AWAY = Failure("BACKEND_UNAVAILABLE", "the backend was not there")
TIMED_OUT = Failure("BACKEND_TIMEOUT", "no answer in time", splittable=True)
CRASHED = Failure("BACKEND_CRASHED", "the process of the worker ended", splittable=True)

_keys = count()


def ask(
    now: Seconds = 0.0,
    *,
    expires: Seconds = 1000.0,
    deadline: Seconds = 1000.0,
    tier: int = 0,
    tenant: str = "",
    parameters: bytes = b"",
    cost: float = 1.0,
    length: int = 0,
    text: bytes = b'"x"',
) -> Queued:
    """A request that arrives now; its limits count from now."""
    return Queued(
        key=str(next(_keys)),
        model="model",
        input=text,
        arrival=now,
        expires=now + expires,
        deadline=now + deadline,
        parameters=parameters,
        tenant=tenant,
        tier=tier,
        cost=cost,
        length=length,
    )


def worker(number: int) -> WorkerId:
    return WorkerId(f"w{number}")


def batcher_with(workers: int, rules: BatchingRules | None = None) -> Batcher:
    batcher = Batcher(rules or BatchingRules())
    for number in range(workers):
        batcher.worker_ready(worker(number))
    return batcher


def offer(batcher: Batcher, *requests: Queued) -> None:
    for request in requests:
        batcher.offer(request, request.arrival)


def outputs(batch: Sealed) -> Result:
    """What a backend makes of it that echoes its inputs."""
    return Result([request.input for request in batch.requests])


def finish(batcher: Batcher, name: WorkerId, outcome: Result | Failure, now: Seconds) -> None:
    """The worker's word on the batch it holds, or on one it was given up on with."""
    holder = batcher.fleet.workers.get(name)
    batch = holder.batch if holder is not None else None
    batcher.finished(name, 0 if batch is None else batch.id, outcome, now)


def teach(batcher: Batcher, seconds: Seconds, *, size: int = 1, times: int = 8) -> None:
    """Let the batcher learn that a batch takes so long, whatever its size."""
    for _ in range(times):
        batcher.curve.observe(size, seconds)


def sent(effects: Effects) -> list[int]:
    return [batch.size for _, batch in effects.dispatches]


def answered(effects: Effects, outcome: Outcome) -> list[Accepted]:
    return [reply.request for reply in effects.replies if reply.outcome is outcome]


def buffer_with(rules: TierRules | None = None) -> tuple[Buffer, Depth]:
    rules = rules or TierRules()
    depth = Depth(len(rules.weights))
    return Buffer(rules, depth), depth


def held(buffer: Buffer) -> int:
    """The most entries any structure of the buffer holds, dead ones among them."""
    most = 0
    for tier in buffer._tiers:
        in_queues = sum(len(found) if isinstance(found, Ordered) else 1 for found in tier.tenants.values())
        turns = len(tier._turns) + len(tier._late)
        most = max(most, len(tier.by_urgency), in_queues, turns, len(tier.tenants))
    return most
