"""Shows a plan to people, for a rich console. `penstock plan` prints what this returns (`cli/plan.py`); nothing is
calculated here."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.advice.arithmetic import WELL_USED
from penstock.advice.plan import Plan
from penstock.advice.trial import Trial
from penstock.units import write_duration


def shown(plan: Plan) -> RenderableType:
    """Returns the plan as a table, with what it assumes below."""
    around = plan.around
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(overflow="fold", style="dim")
    table.add_row(Text("GPUs", "bold"), Text(f"{plan.workers:,}", "bold"), _why_so_many(plan))
    table.add_row("gateways", f"{around.gateways:,}", "one of them may fail")
    table.add_row("batchers", f"{around.batchers:,}", "one of them may fail")
    table.add_row(
        "Redis",
        _size(around.memory),
        "" if around.stores == 1 else f"in {around.stores} primaries: a cluster",
    )
    clients = f"from clients, {_speed(around.clients_out)} to them"
    store = f"{_speed(around.store_in)} to Redis, {_speed(around.store_out)} from it, at the peak"
    table.add_row("network", _speed(around.clients_in), f"{clients}; {store}")
    if plan.cost is not None:
        table.add_row(
            "cost", f"{plan.cost:,.2f}", f"for a million requests, at {plan.price:g} an hour for a GPU"
        )
    parts: list[RenderableType] = [table, Text("")]
    parts += [Text(line) for line in _findings(plan)]
    parts += [Text(""), *[Text(f"assumed  {line}", "dim") for line in _assumptions(plan)]]
    if around.one_process:
        parts.append(
            Text(
                "If the GPUs are in one machine, `penstock serve` does it alone:"
                " no gateways, batchers or Redis."
            )
        )
    return Group(*parts)


def _why_so_many(plan: Plan) -> str:
    load = plan.need.rate / plan.capacity
    of_them = f"{plan.needed.workers:,} for the load and {plan.spare:,} that may fail; " if plan.spare else ""
    return f"{of_them}they can do {plan.capacity:,.0f}/s, {1 / load - 1:.0%} more than the load"


def _findings(plan: Plan) -> list[str]:
    """What the simulator says, and how far it is from the limit."""
    name = f"p{plan.need.quantile * 100:g}"
    lines = [f"simulated  {_said(plan.needed, name)}"]
    if plan.fewer is not None:
        lines.append(f"           {_said(plan.fewer, name)}: too slow")
    elif plan.needed.workers > 1:
        lines.append(f"           {plan.needed.workers - 1:,} GPUs cannot carry the load at all")
    if not plan.spare and plan.needed.workers > 1:
        lines.append("If a GPU fails, the objective is missed until it is back: --spare 1 plans for that.")
    return lines


def _said(trial: Trial, name: str) -> str:
    gpus = f"{trial.workers:,} GPU{'' if trial.workers == 1 else 's'}"
    if trial.latency is None:
        return f"{gpus}: only {trial.answered:.1%} of the requests answered"
    return (
        f"{gpus}: {name} {trial.latency * 1e3:,.1f} ms, batches of {trial.batch:.1f}, {trial.busy:.0%} busy"
    )


def _assumptions(plan: Plan) -> list[str]:
    need, curve = plan.need, plan.curve
    sizes = sorted(
        {1, curve.max_batch, *(size for size, _ in curve.service.points if size < curve.max_batch)}
    )
    times = ", ".join(f"{size} in {curve.seconds(size) * 1e3:.4g} ms" for size in sizes)
    bursts = f"with bursts of {need.bursts:.3g} times that" if need.bursts > 1 else "arriving independently"
    kept = (
        f"; {need.async_share:.0%} asynchronous, kept for {write_duration(need.result_ttl)}"
        if need.async_share
        else ""
    )
    return [
        f"{need.rate:,.6g} requests a second {plan.source and f'({plan.source}) '}{bursts}",
        f"{need.quantile * 100:.6g} % of them answered within {write_duration(round(need.objective, 6))};"
        " a refused one counts as late",
        f"a GPU takes for a batch of {times} ({curve.source}); all GPUs are alike",
        f"{need.input_bytes:,} bytes in and {need.output_bytes:,} out{kept}",
        "processor time as measured with 2 KB each way (docs/benchmarks.md);"
        f" each process uses {WELL_USED:.0%} of a core",
    ]


def _size(size: int) -> str:
    return f"{size / 2**30:,.1f} GiB" if size >= 2**30 else f"{size / 2**20:,.0f} MiB"


def _speed(bytes_a_second: float) -> str:
    bits = bytes_a_second * 8
    return f"{bits / 1e9:,.2f} Gbit/s" if bits >= 1e9 else f"{bits / 1e6:,.1f} Mbit/s"
