"""What no batching policy can beat, from the service time, the workers and the arrival rate alone.

A batch of n takes S(n) = a + b·n seconds; G workers, at most N in a batch, λ requests a second. Everything is in
seconds and requests a second. A simulator below a floor is wrong; a server far above one has work to do. The
benchmarks that judge a latency hold it against these. The formulas stand here apart from those of `penstock sim`,
so that the one can be held against the other.
"""

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class Service:
    """A fleet of equal workers."""

    a: float
    workers: int
    max_batch: int
    b: float = 0.0

    def seconds(self, n: float) -> float:
        return self.a + self.b * n

    @property
    def capacity(self) -> float:
        """Requests a second when every batch is full and no worker ever rests."""
        return self.workers * self.max_batch / self.seconds(self.max_batch)


def load(service: Service, rate: float) -> float:
    """The share of the capacity that is asked for."""
    return rate / service.capacity


def gap(service: Service, rate: float) -> float:
    """The shortest steady time between two starts: in it, each of G workers does the work of one gap.

    G·τ = a + b·λ·τ. Starting sooner finds no worker free; with b = 0 it is S/G.
    """
    spare = service.workers - rate * service.b
    if spare <= 0:
        raise ValueError(f"{rate:g} requests a second are more than any batch size can carry")
    return service.a / spare


def mean(service: Service, rate: float) -> float:
    """An arrival waits half a gap on average, and then for its batch, which takes G gaps."""
    return gap(service, rate) * (service.workers + 0.5)


def quantile(service: Service, rate: float, q: float) -> float:
    """Arrivals spread evenly over a gap: a share q of them waits q of it or less."""
    return gap(service, rate) * (service.workers + q)


def crowding(service: Service, rate: float, q: float | None = None) -> float:
    """About what chance adds near capacity, where a batch that is full leaves somebody behind.

    To the mean, or to quantile q. An estimate, not a bound.
    """
    extra = gap(service, rate) / (2 * service.max_batch * (1.0 - load(service, rate)))
    return extra if q is None else extra * log(1.0 / (1.0 - q))


def plentiful(service: Service, rate: float) -> bool:
    """Fewer arrive than batches can start: each may have a worker of its own, and the floor is `alone`."""
    return rate * gap(service, rate) <= 1.0


def alone(service: Service) -> float:
    """A request that need not wait for anybody still takes this long."""
    return service.seconds(1)


def single_worker_mean(a: float, b: float, rate: float) -> float:
    """One worker that takes whatever waits as soon as it is free, without a limit on the batch.

    An upper bound on its mean, and within half a percent of it (Inoue, Performance Evaluation 2021): a
    simulated greedy worker has to land just below.
    """
    rest = 1.0 - rate * b
    if rest <= 0:
        raise ValueError(f"{rate:g} requests a second are more than any batch size can carry")
    return 1.5 * a / rest + 0.5 * b * (rate * b + 2.0) / (1.0 - (rate * b) ** 2)
