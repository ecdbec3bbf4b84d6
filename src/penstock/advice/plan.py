"""Makes a plan: the fewest GPUs with which the simulator keeps the objective, and what stands around them.
`cli/plan.py` calls `make_plan`, and `shown.py` shows the result.

The search begins where the arithmetic puts it, which is mostly the answer or one beside it, and ends when the
planned number keeps the objective in the simulator and one fewer does not."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

from penstock.advice.arithmetic import (
    MOST_GPUS,
    Around,
    Need,
    around,
    capacity,
    cost_per_million,
    enough_workers,
    latency,
    least_workers,
)
from penstock.advice.curve import Curve
from penstock.advice.trial import Trial, try_workers
from penstock.errors import UserMistake
from penstock.load.traffic import Schedule

MOST_TRIALS = 40  # simulations in one search: enough to double and halve over any number of GPUs


@dataclass(frozen=True, slots=True)
class Plan:
    """How many of everything."""

    need: Need
    curve: Curve
    needed: Trial  # the fewest GPUs that keep the objective
    fewer: Trial | None  # one fewer; None if so few cannot carry the load at all
    spare: int  # GPUs beyond the needed ones, which may fail
    estimate: float  # seconds: the latency by the arithmetic alone
    around: Around
    price: float | None  # the price of a GPU for an hour, if it was told
    source: str  # the source of the trace, if there is one

    @property
    def workers(self) -> int:
        return self.needed.workers + self.spare

    @property
    def capacity(self) -> float:
        return capacity(self.curve, self.workers)

    @property
    def cost(self) -> float | None:
        """What a million requests cost."""
        return None if self.price is None else cost_per_million(self.workers, self.price, self.need.rate)

    def as_dict(self) -> dict[str, object]:
        """Returns the plan for `--json`."""
        curve, need = self.curve, self.need
        sizes = sorted(
            {1, curve.max_batch, *(size for size, _ in curve.service.points if size < curve.max_batch)}
        )
        return {
            "gpus": self.workers,
            "gpus_needed": self.needed.workers,
            "spare": self.spare,
            "capacity_rps": round(self.capacity, 3),
            "load": round(need.rate / self.capacity, 4),
            "estimated_latency_ms": _ms(self.estimate),
            "simulated": _trial(self.needed),
            "simulated_with_one_fewer": None if self.fewer is None else _trial(self.fewer),
            "cost_per_million": None if self.cost is None else round(self.cost, 4),
            **asdict(self.around),
            "assumed": {
                **asdict(need),
                "max_batch": curve.max_batch,
                "batch_ms": {str(size): _ms(curve.seconds(size)) for size in sizes},
                "curve": curve.source,
                "gpu_price": self.price,
                "trace": self.source or None,
            },
        }


def make_plan(
    curve: Curve,
    need: Need,
    schedule: Schedule,
    warmup: float,
    *,
    spare: int = 0,
    price: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> Plan:
    """Finds how many GPUs are needed, and what stands around them. Raises UserMistake if no number is enough.
    `progress` is told of each number of GPUs that is about to be tried."""
    tried: dict[int, Trial] = {}

    def keeps(workers: int) -> bool:
        if workers not in tried:
            if progress is not None:
                progress(workers)
            tried[workers] = try_workers(curve, workers, need, schedule, warmup)
        return tried[workers].keeps(need)

    begin = enough_workers(curve, need.rate, need.objective, need.quantile)
    if begin is None and curve.seconds(1) <= need.objective:
        raise UserMistake(
            f"--rate {need.rate:g} needs more than {MOST_GPUS:,} GPUs: plan a part of it, and multiply"
        )
    if begin is None:
        raise UserMistake(
            f"--objective: a batch of one takes {curve.seconds(1) * 1e3:g} ms, so no number of GPUs answers within"
            f" {need.objective * 1e3:g} ms: allow more, or use a faster model"
        )
    too_few = least_workers(curve, need.rate) - 1
    needed = fewest(keeps, begin, too_few)
    if needed is None:
        raise UserMistake(
            f"--objective {need.objective * 1e3:g}ms is too close to the {curve.seconds(1) * 1e3:g} ms of a"
            f" batch of one: {max(tried):,} GPUs do not keep it in the simulator"
        )
    return Plan(
        need, curve, tried[needed], tried.get(needed - 1), spare,
        latency(curve, needed, need.rate, need.quantile), around(need), price, schedule.source,
    )  # fmt: skip


def fewest(keeps: Callable[[int], bool], begin: int, too_few: int) -> int | None:
    """Returns the least number that keeps the objective, searching outwards from `begin`. `too_few` is known
    not to. None if none is found."""
    low, high, step = too_few, begin, 1
    if keeps(begin):
        while high - step > low and keeps(high - step):
            high, step = high - step, 2 * step
        low = max(low, high - step)
    else:
        low = begin
        while not keeps(high := low + step):
            low, step = high, 2 * step
            if step > 1 << (MOST_TRIALS // 2) or low > 64 * begin:
                return None
    while high - low > 1:
        middle = (low + high) // 2
        if keeps(middle):
            high = middle
        else:
            low = middle
    return high


def _trial(trial: Trial) -> dict[str, object]:
    return {
        "gpus": trial.workers,
        "latency_ms": None if trial.latency is None else _ms(trial.latency),
        "mean_ms": None if trial.mean is None else _ms(trial.mean),
        "answered": round(trial.answered, 6),
        "mean_batch": round(trial.batch, 3),
        "busy": round(trial.busy, 4),
    }


def _ms(seconds: float) -> float:
    return round(seconds * 1e3, 4)
