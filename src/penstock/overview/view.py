"""Makes the overview of one process, or of all that have told how they stand. `runtime/own_overview.py` calls it
while somebody looks. Reports in, one `Overview` out; nothing is kept."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from penstock.overview.counts import Counts, added
from penstock.overview.diary import STEP
from penstock.overview.figures import SHORTEST, Figures, figures_of
from penstock.overview.overview import ModelLook, Overview, Past, ProcessLook, WorkerLook
from penstock.overview.policies import reason_of
from penstock.overview.reports import ModelReport, Moment, Promise, Report, Standing, Step
from penstock.overview.verdict import verdict_of


@dataclass(frozen=True, slots=True)
class Looker:
    """The process that was asked."""

    name: str
    role: str
    version: str
    not_ready: str  # why no traffic should come; empty if it should


def overview_of(
    looker: Looker,
    reports: Sequence[Report],
    workers: Sequence[WorkerLook],
    processes: Sequence[ProcessLook],
    at: float,
) -> Overview:
    """Makes the overview. `processes`: their `told` is set here. `at`: the time of day, in seconds since the
    epoch."""
    told: dict[str, list[tuple[ModelReport, float]]] = defaultdict(list)
    for report in reports:
        for name, model in report.models.items():
            told[name].append((model, report.seconds))
    # Requests for no model that is known are counted under no name, in the sum of all.
    models = [_model(name, parts, workers) for name, parts in sorted(told.items()) if name]
    parts = [(model.recent, seconds) for each in told.values() for model, seconds in each]
    figures = figures_of(
        parts,
        _together(model.standing.queue for model in models),
        sum(model.standing.arrivals for model in models),
        sum(model.standing.capacity for model in models),
    )
    names = {report.name for report in reports}
    for process in processes:
        process.told = process.name in names
    verdict = verdict_of(looker.not_ready, figures, models, workers, processes)
    return Overview(
        round(at, 3), looker.name, looker.role, looker.version, verdict, figures,
        sum(report.waiting for report in reports), models, list(workers), list(processes),
    )  # fmt: skip


def _model(name: str, told: Sequence[tuple[ModelReport, float]], workers: Sequence[WorkerLook]) -> ModelLook:
    own = [worker for worker in workers if worker.model == name]
    healthy = sum(worker.status == "healthy" for worker in own)
    standing = _standing([model.standing for model, _ in told if model.standing is not None])
    total = added(model.total for model, _ in told)
    refused: defaultdict[str, float] = defaultdict(float)
    for model, seconds in told:
        for tier, number in model.recent.refused_tiers.items():
            refused[tier] += number / max(seconds, SHORTEST)
    return ModelLook(
        name=name,
        figures=figures_of(
            [(model.recent, seconds) for model, seconds in told],
            standing.queue, standing.arrivals, standing.capacity,
        ),
        outcomes=total.outcomes,
        refused=total.refused,
        refused_tiers={tier: round(rate, 3) for tier, rate in refused.items()},
        letters=total.letters,
        workers=len(own),
        healthy=healthy,
        standing=standing,
        policy_reason=reason_of(standing, healthy),
        promise=_strictest([model.promise for model, _ in told if model.promise is not None]),
    )  # fmt: skip


def _standing(parts: Sequence[Standing]) -> Standing:
    """How a model stands at all batchers. Queues are added up. All batchers know of the same fleet, but some have
    learned more of it."""
    if not parts:
        return Standing()
    if len(parts) == 1:
        return parts[0]
    wisest = max(parts, key=lambda each: each.capacity)
    return Standing(
        queue=_together(each.queue for each in parts),
        queue_limit=sum(each.queue_limit for each in parts),
        expected_wait=max(
            (each.expected_wait for each in parts if each.expected_wait is not None), default=None
        ),
        warning_depth=_sum(each.warning_depth for each in parts),
        critical_depth=_sum(each.critical_depth for each in parts),
        arrivals=sum(each.arrivals for each in parts),
        capacity=wisest.capacity,
        curve=wisest.curve,
        best_batch=wisest.best_batch,
        max_batch=wisest.max_batch,
        policy=wisest.policy,
        retry_budget=min(each.retry_budget for each in parts),
    )


def _strictest(some: Sequence[Promise]) -> Promise | None:
    if not some:
        return None
    return Promise(min(each.objective for each in some), min(each.queue_timeout for each in some))


def _together(queues: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for queue in queues:
        for tier, waiting in queue.items():
            total[tier] = total.get(tier, 0) + waiting
    return total


def _sum(some: Iterable[float | None]) -> float | None:
    known = [each for each in some if each is not None]
    return round(sum(known), 1) if known else None


# ---- the last hour -------------------------------------------------------------------------------------------


def past_of(reports: Iterable[Report]) -> list[Past]:
    """Returns the steps of the last hour, the oldest first, each of all processes together."""
    steps: dict[int, dict[str, Step]] = defaultdict(dict)
    for report in reports:
        for step in report.hour:
            steps[step.at // STEP * STEP][report.name] = step
    return [_past(at, [*steps[at].values()]) for at in sorted(steps)]


def _past(at: int, steps: Sequence[Step]) -> Past:
    told: dict[str, list[tuple[Moment, float]]] = defaultdict(list)
    for step in steps:
        for name, moment in step.models.items():
            told[name].append((moment, step.seconds))
    models = {name: _figures(moments) for name, moments in told.items() if name}
    parts: list[tuple[Counts, float]] = [
        (one.counts, seconds) for each in told.values() for one, seconds in each
    ]
    together = figures_of(
        parts,
        _together(each.queue for each in models.values()),
        0.0,
        sum(each.capacity for each in models.values()),
    )
    return Past(at, together, models)


def _figures(moments: Sequence[tuple[Moment, float]]) -> Figures:
    return figures_of(
        [(moment.counts, seconds) for moment, seconds in moments],
        _together(moment.queue for moment, _ in moments),
        0.0,  # the arrivals: they are known for the end of the step only
        max(moment.capacity for moment, _ in moments),
    )
