"""The lists of `penstock top`: models, tiers, workers and processes, each row with its details. Made from an
overview; `screen.py` shows them."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from penstock.overview.figures import Figures, Group, utilization
from penstock.overview.overview import NOT_ASKED, ModelLook, Overview, WorkerLook
from penstock.top.words import milliseconds, percent, rate

Order = Sequence[float | str]  # what a row is sorted by, column by column
Kind = Literal["models", "tiers", "workers", "processes"]
KINDS: tuple[Kind, ...] = ("models", "tiers", "workers", "processes")


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = True  # whether its cells stand at the right edge, as figures do


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a list."""

    name: str
    cells: Sequence[str]
    order: Order
    details: Sequence[str] = field(default_factory=list)  # the lines that are shown if it is looked at alone
    trouble: bool = False  # whether something is wrong with what it shows


@dataclass(frozen=True, slots=True)
class Rows:
    """A list as it is shown."""

    columns: Sequence[Column]
    rows: Sequence[Row]


def rows_of(overview: Overview, kind: Kind) -> Rows:
    """Makes the list of this kind."""
    return _MAKERS[kind](overview)


# ---- models ------------------------------------------------------------------------------------------------


def _models(overview: Overview) -> Rows:
    titles = ("served/s", "unserved/s", "load", "p50", "p99", "queue", "batch", "workers")
    columns = [Column("model", right=False), *(Column(title) for title in titles)]
    return Rows(columns, [_model_row(model, overview) for model in overview.models])


def _model_row(model: ModelLook, overview: Overview) -> Row:
    figures, rates = model.figures, model.figures.rates
    used, queue = utilization(figures), sum(figures.queue.values())
    served = rates.get("ok", 0.0)
    unserved = sum(rates.values()) - served
    cells = [
        model.name, rate(served), rate(unserved), percent(used), milliseconds(figures.p50),
        milliseconds(figures.p99), f"{queue:,}", "-" if figures.batch is None else f"{figures.batch:.1f}",
        f"{model.healthy}/{model.workers}",
    ]  # fmt: skip
    order: Order = [
        model.name, served, unserved, used or 0.0, figures.p50 or 0.0, figures.p99 or 0.0, queue,
        figures.batch or 0.0, model.healthy,
    ]  # fmt: skip
    trouble = model.healthy < model.workers or any(rates.get(group) for group in ("refused", "failed"))
    return Row(model.name, cells, order, _model_details(model), trouble)


def _model_details(model: ModelLook) -> list[str]:
    figures, stands = model.figures, model.standing
    curve = "  ".join(f"{size}: {milliseconds(1e3 * seconds)}" for size, seconds in stands.curve)
    lines = [
        f"policy     {stands.policy}: {model.policy_reason}",
        f"capacity   {rate(figures.capacity)} requests/s; {rate(figures.load)}/s are asked for",
        f"a batch of {curve or 'nothing is known yet'}",
        f"sent       {_table(figures.reasons)} batches/s"
        if figures.reasons
        else "sent       nothing of late",
        f"queue      {_counts(figures.queue)}; at most {stands.queue_limit:,}",
    ]
    if stands.expected_wait is not None:
        lines.append(f"wait       {milliseconds(1e3 * stands.expected_wait)} for a request that comes now")
    if stands.warning_depth is not None and stands.critical_depth is not None:
        lines.append(
            f"refusals   the lowest tier with {stands.warning_depth:,.0f} waiting, all but the best with"
            f" {stands.critical_depth:,.0f}"
        )
    if figures.codes:
        lines.append(f"not served {_table(figures.codes)} a second")
    if model.promise is not None:
        lines.append(
            f"objective  {milliseconds(1e3 * model.promise.objective)}; p95 {milliseconds(figures.p95)}"
        )
    lines.append(
        f"cache      {percent(figures.hits)} answered; padding {percent(figures.padding)};"
        f" dead letters {model.letters:,}"
    )
    return lines


# ---- tiers -------------------------------------------------------------------------------------------------


def _tiers(overview: Overview) -> Rows:
    waiting: dict[str, dict[str, int]] = defaultdict(dict)
    for model in overview.models:
        for tier, number in model.standing.queue.items():
            waiting[tier][model.name] = number
    rows = []
    for rank, (tier, queues) in enumerate(waiting.items()):
        refused = {
            model.name: found for model in overview.models if (found := model.refused_tiers.get(tier, 0.0))
        }
        number, often = sum(queues.values()), sum(refused.values())
        details = [f"waiting    {_counts(queues)}"]
        if refused:
            details.append(f"refused    {_table(refused)} a second")
        says = "some requests are refused" if often else "let in"
        rows.append(
            Row(
                tier,
                [tier, f"{number:,}", rate(often), says],
                [rank, number, often, says],
                details,
                bool(often),
            )
        )
    return Rows(
        [Column("tier", right=False), Column("waiting"), Column("refused/s"), Column("now", right=False)],
        rows,
    )


# ---- workers -----------------------------------------------------------------------------------------------


def _workers(overview: Overview) -> Rows:
    titles = ("in flight", "batches", "speed", "restarts")
    columns = [
        Column("worker", right=False), Column("state", right=False), Column("busy"),
        *(Column(title) for title in titles), Column("last error", right=False),
    ]  # fmt: skip
    return Rows(columns, [_worker_row(worker) for worker in overview.workers])


def _worker_row(worker: WorkerLook) -> Row:
    speed = worker.relative_service_time
    cells = [
        worker.worker, worker.state, percent(worker.utilization), f"{worker.in_flight}", f"{worker.batches:,}",
        "-" if speed is None else f"x {speed:.2f}", f"{worker.restarts}", worker.last_error,
    ]  # fmt: skip
    order: Order = [
        worker.worker, worker.state, worker.utilization, worker.in_flight, worker.batches, speed or 0.0,
        worker.restarts, worker.last_error,
    ]  # fmt: skip
    details = [
        f"model      {worker.model}",
        f"host       {worker.host}, last heard of {worker.last_seen:.1f} s ago",
        f"status     {worker.status}, {worker.state}",
        f"speed      {'only batchers know' if speed is None else f'a batch takes {speed:.2f} x as long as usual'}",
        f"last error {worker.last_error or 'none'}",
    ]
    return Row(worker.worker, cells, order, details, worker.status != "healthy")


# ---- processes ---------------------------------------------------------------------------------------------


def _processes(overview: Overview) -> Rows:
    columns = [
        Column("process", right=False), Column("role", right=False), Column("host", right=False),
        Column("last heard of"), Column("figures", right=False),
    ]  # fmt: skip
    rows = []
    for each in overview.processes:
        figures = "in its heartbeats" if each.role in NOT_ASKED else "here" if each.told else "missing"
        seen = f"{each.last_seen:.1f} s ago"
        order: Order = [each.name, each.role, each.host, each.last_seen, figures]
        rows.append(
            Row(each.name, [each.name, each.role, each.host, seen, figures], order, [], figures == "missing")
        )
    return Rows(columns, rows)


_WORDS: Mapping[Group, str] = {
    "refused": "refused", "failed": "failed", "quota": "over quota", "rejected": "wrong"
}  # fmt: skip
_MAKERS: Mapping[Kind, Callable[[Overview], Rows]] = {
    "models": _models, "tiers": _tiers, "workers": _workers, "processes": _processes
}  # fmt: skip


def _table(rates: Mapping[str, float]) -> str:
    return ", ".join(
        f"{name} {rate(each)}" for name, each in sorted(rates.items(), key=lambda item: -item[1])
    )


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {each:,}" for name, each in counts.items()) or "nothing"


def served(figures: Figures) -> str:
    """Returns what became of the requests, in a line."""
    parts = [f"served {rate(figures.rates.get('ok', 0.0))}/s"]
    parts += [
        f"{word} {rate(often)}/s" for group, word in _WORDS.items() if (often := figures.rates.get(group))
    ]
    return "  ".join(parts)
