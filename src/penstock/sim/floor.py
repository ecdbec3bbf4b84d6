"""The floor: the latency that no policy can beat. `penstock sim` prints it beside its results. `penstock plan`
needs only the gap between batches from here (`advice/arithmetic.py`). Pure arithmetic: nothing is played.

τ is the gap between two starts of a batch, λ the arrival rate, and S(n) the time of a batch of n. At best G workers
start a batch every τ with G·τ = S(λ·τ). A request waits for the next start, τ/2 on average and q·τ at quantile q,
and then for its batch, which takes G·τ. If S is constant, that is S·(1 + q/G). If each request can have a worker of
its own, no request waits, and the floor is S(1).
"""

from penstock.load.report import Spread
from penstock.service_model import ServiceModel

# Each field of a `Spread`, and the quantile that it is.
_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p999": 0.999, "max": 1.0}


def floor(service: ServiceModel, workers: int, max_batch: int, rate: float) -> Spread | None:
    """Returns the floor for independent arrivals at a steady rate; None at or above capacity, where latency has no
    bound."""
    if workers * max_batch <= rate * service.seconds(max_batch):
        return None
    gap = gap_of_starts(service, workers, rate)
    if rate * gap <= 1.0:
        alone = _ms(service.seconds(1))
        return Spread(alone, alone, alone, alone, alone, alone, alone)
    return Spread(
        mean=_ms(gap * (workers + 0.5)),
        **{name: _ms(gap * (workers + quantile)) for name, quantile in _QUANTILES.items()},
    )


def gap_of_starts(service: ServiceModel, workers: int, rate: float) -> float:
    """Returns τ, the shortest gap between two starts. The rate must be below the capacity. Where no curve was
    measured, a batch at or below the knee takes `a` seconds, and beyond it the time grows by `b` for each
    request."""
    if service.points:
        return _measured_gap(service, workers, rate)
    a, b, knee = service.a * service.slow_factor, service.b * service.slow_factor, service.knee or 0
    gap = a / workers
    if rate * gap > knee:
        gap = (a - b * knee) / (workers - rate * b)
    return gap


def _measured_gap(service: ServiceModel, workers: int, rate: float) -> float:
    """Returns τ where the curve was measured: the least gap in which the workers do the work of one gap. There is
    one, because the rate is below the capacity."""
    short, long = 0.0, service.level(1) / workers
    while workers * long < service.level(rate * long):
        short, long = long, 2 * long
    for _ in range(50):
        middle = (short + long) / 2
        if workers * middle < service.level(rate * middle):
            short = middle
        else:
            long = middle
    return long


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 4)
