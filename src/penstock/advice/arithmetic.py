"""The arithmetic of planning: how much GPUs can do, how many a load needs, and what has to stand around them.
Pure: numbers in, numbers out. `plan.py` calls it, and then lets the simulator judge; `cells.py` uses its costs.

S(n) is the time of a batch of n, G the number of GPUs, N the largest batch, λ the arrival rate, and ρ the load:
λ divided by the capacity. At best G GPUs start a batch every τ, and latency at quantile q is τ·(G + q)
(`sim/floor.py`). A batch that is full leaves somebody behind, which adds about
τ / (2·N·(1 − ρ)) · ln(1 / (1 − q)) near the capacity, and little where batches are seldom full: so it counts by
the chance that more than N requests come while ρ·N are expected. For a constant S that is within 3 % of the
simulator. Where S rises with n the simulator is slower, since chance moves the batches, so the estimate only says
where to begin.
"""

from dataclasses import dataclass
from math import ceil, erfc, inf, log, sqrt

from penstock.advice.curve import Curve
from penstock.sim.floor import gap_of_starts
from penstock.types import Seconds

MOST_GPUS = 10_000  # more cannot be simulated in good time

# Processor seconds that each role spends on a request of 2 KB in and out (docs/benchmarks.md, over Redis).
SERVE, GATEWAY, BATCHER, STORE = 31e-6, 34e-6, 23e-6, 10e-6
WELL_USED = 0.6  # the part of a core that a process should not go beyond

HEADS = 1024  # bytes of the HTTP heads of a request and its answer
ENVELOPE = 512  # bytes around a request, and around its answer, on their way through Redis
KEPT = 1024  # bytes of Redis's memory beside the payload of what is in it
QUEUE_LIMIT: Seconds = 2.0  # the longest wait in the queue, by default
USABLE = 0.8  # the part of Redis's memory that may be used: `redis.memory_limit`
FOR_KEPT = 0.6  # the part of the usable memory that results may take
LEAST_MEMORY = 256 * 2**20  # bytes: what a Redis is given at least


@dataclass(frozen=True, slots=True)
class Need:
    """What is asked of an installation."""

    rate: float  # requests a second, on average
    objective: Seconds  # the part `quantile` of all requests is to be answered within this time
    quantile: float = 0.99
    bursts: float = 1.0  # the rate of a burst divided by the mean
    input_bytes: int = 2048
    output_bytes: int = 2048
    async_share: float = 0.0  # the part of the requests whose results are kept until they are fetched
    result_ttl: Seconds = 600.0  # how long such a result is kept

    @property
    def peak(self) -> float:
        return self.rate * self.bursts


@dataclass(frozen=True, slots=True)
class Around:
    """What stands around the GPUs."""

    gateways: int
    batchers: int
    stores: int  # primaries of Redis; more than one is a cluster
    memory: int  # bytes of Redis, in all
    clients_in: float  # bytes a second from clients to gateways
    clients_out: float  # bytes a second from gateways to clients
    store_in: float  # bytes a second to Redis
    store_out: float  # bytes a second from Redis
    one_process: bool  # whether `penstock serve` alone carries the load


def throughput(curve: Curve) -> float:
    """Requests a second of one GPU at its best batch size."""
    return max(size / curve.seconds(size) for size in range(1, curve.max_batch + 1))


def capacity(curve: Curve, workers: int) -> float:
    """Requests a second of so many GPUs."""
    return workers * throughput(curve)


def least_workers(curve: Curve, rate: float) -> int:
    """The fewest GPUs whose capacity is above the rate, however long a request waits."""
    return int(rate / throughput(curve)) + 1


def latency(curve: Curve, workers: int, rate: float, quantile: float) -> Seconds:
    """About the latency at a quantile, for independent arrivals at a steady rate; infinite at or above
    capacity."""
    load = rate / capacity(curve, workers)
    if load >= 1.0:
        return inf
    gap = gap_of_starts(curve.service, workers, rate)
    if rate * gap <= 1.0:
        return curve.seconds(1)  # each request has a GPU of its own
    crowd = gap / (2 * curve.max_batch * (1.0 - load)) * log(1.0 / (1.0 - quantile))
    expected = load * curve.max_batch
    return gap * (workers + quantile) + crowd * _above(curve.max_batch - expected, sqrt(expected))


def _above(distance: float, spread: float) -> float:
    """The chance of a value that lies so far or farther above the expected one."""
    return 0.5 * erfc(distance / spread / sqrt(2.0))


def enough_workers(curve: Curve, rate: float, objective: Seconds, quantile: float) -> int | None:
    """About the fewest GPUs that keep the objective; None if no number of them does, or it is
    beyond what can be simulated."""
    if curve.seconds(1) > objective:
        return None
    low = least_workers(curve, rate) - 1  # too few
    high = low + 1
    while high <= MOST_GPUS and latency(curve, high, rate, quantile) > objective:
        low, high = high, 2 * high
    if high > MOST_GPUS:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if latency(curve, middle, rate, quantile) > objective:
            low = middle
        else:
            high = middle
    return high


def around(need: Need, *, spare: int = 1) -> Around:
    """What stands around the GPUs. `spare`: gateways, and batchers, that may fail."""
    moved = need.input_bytes + need.output_bytes
    waiting = need.peak * QUEUE_LIMIT * (moved + KEPT)
    kept = need.rate * need.async_share * need.result_ttl * (need.output_bytes + KEPT)
    memory = max(LEAST_MEMORY, ceil((waiting + kept / FOR_KEPT) / USABLE))
    through_store = need.peak * (moved + 2 * ENVELOPE)
    return Around(
        gateways=_processes(need.peak, GATEWAY) + spare,
        batchers=_processes(need.peak, BATCHER) + spare,
        stores=_processes(need.peak, STORE),
        memory=memory,
        clients_in=need.peak * (need.input_bytes + HEADS),
        clients_out=need.peak * (need.output_bytes + HEADS),
        store_in=through_store,
        store_out=through_store,
        one_process=_processes(need.peak, SERVE) == 1,
    )


def _processes(rate: float, seconds: Seconds) -> int:
    """How many processes a rate needs. `seconds`: processor seconds for each request."""
    return max(1, ceil(rate * seconds / WELL_USED))


def cost_per_million(workers: int, price: float, rate: float) -> float:
    """What a million requests cost. `price`: the price of one GPU for an hour."""
    return workers * price / 3600.0 / rate * 1e6
