"""Shows what `penstock tune` advises: as tables for people, as a fragment of penstock.toml, and as the fields of
its JSON. `cli/tune.py` prints what these return; nothing is decided here."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from penstock.advice.goal import Goal
from penstock.advice.played import Latency, Played
from penstock.advice.setting import NEEDS_RESTART, Setting
from penstock.advice.tuning import Advice
from penstock.units import write_duration

MOST_ROWS = 12  # rows of the table that show the front


def shown(advice: Advice, assumed: Sequence[str]) -> RenderableType:
    """Returns the advice without the fragment, which is for a file."""
    parts: list[RenderableType] = [_table(advice), Text(""), Text(summary(advice), "bold")]
    return Group(*parts, Text(""), *[Text(f"assumed  {line}", "dim") for line in assumed])


def summary(advice: Advice) -> str:
    """Returns in a sentence what to do."""
    goal, tried = advice.goal, f"{advice.tried} of {advice.of:,} settings were tried"
    bound = f" within {_ms(goal.within)} for 99 %" if goal.saves_gpus else ""
    if not goal.keeps(advice.best):
        return (
            f"No setting keeps {_ms(goal.within)} for 99 % of the requests; the best takes"
            f" {_ms(goal.latency(advice.best))}. `penstock plan` says how many GPUs would. {tried}."
        )
    if not advice.changes:
        return f"Nothing to change: no other setting is surely more than 1 % better{bound}. {tried}."
    if not goal.keeps(advice.in_force):
        return f"What is in force does not keep {_ms(goal.within)}, and the advised setting does. {tried}."
    before, after = goal.value(advice.in_force), goal.value(advice.advised)
    unit = (lambda value: f"{value:,.2f} s") if goal.saves_gpus else _ms
    name = "GPU seconds for 1,000 answers" if goal.saves_gpus else goal.objective
    return f"{name}: {unit(after)} instead of {unit(before)}, {advice.gain:.1%} less{bound}. {tried}."


def _table(advice: Advice) -> Table:
    goal = advice.goal
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("", no_wrap=True)
    for heading in (goal.shown, "mean") if goal.shown != "mean" else ("mean", "p99"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in ("GPU s/1,000", "answered", "batch", "busy"):
        table.add_column(heading, justify="right", no_wrap=True)
    for heading in _columns(advice):
        table.add_column(heading, no_wrap=True)
    for name, played in _rows(advice):
        other = played.latency.mean if goal.shown != "mean" else played.latency.p99
        settings = [_value(column, played.setting) for column in _columns(advice)]
        table.add_row(
            name, _ms(goal.latency(played)), _ms(other), f"{played.gpu_seconds:,.2f}",
            f"{played.answered:.1%}", f"{played.batch:.1f}", f"{played.busy:.0%}", *settings,
            style="bold" if name == "advised" else "",
        )  # fmt: skip
    return table


def _rows(advice: Advice) -> Iterator[tuple[str, Played]]:
    """Yields what is in force, what is advised, and the front, each with its title."""
    yield "in force", advice.in_force
    if advice.changes:
        yield "advised", advice.advised
    others = [each for each in advice.front if each not in (advice.in_force, advice.advised)]
    for number, played in enumerate(_thinned(others, advice.goal)):
        yield "" if number else "the front", played


def _thinned(front: Sequence[Played], goal: Goal) -> list[Played]:
    """Returns so many of the front as people read, evenly chosen."""
    if len(front) <= MOST_ROWS:
        return list(front)
    step = (len(front) - 1) / (MOST_ROWS - 1)
    return [front[round(row * step)] for row in range(MOST_ROWS)]


def _columns(advice: Advice) -> list[str]:
    """The settings that are shown: those that differ somewhere, and the policy."""
    everything = [advice.in_force, advice.advised, *advice.front]
    different = {name for each in everything for name in each.setting.differs(advice.in_force.setting)}
    return [
        name for name in Setting.__dataclass_fields__ if name in different or name in ("policy", "max_batch")
    ]


def _value(name: str, setting: Setting) -> str:
    match name:
        case "max_wait":
            return write_duration(setting.max_wait)
        case "strict":
            return order_of(setting)
        case _:
            return str(getattr(setting, name))


def order_of(setting: Setting) -> str:
    """Returns what `order` in [tiers] is called."""
    return "strict" if setting.strict else "weighted"


def changed(advice: Advice) -> dict[str, tuple[str, str]]:
    """Returns what changes, by the name of the setting: as TOML, the new value and the old one."""
    now, then = advice.in_force.setting, advice.advised.setting
    return {
        "order" if name == "strict" else name: (_toml(name, then), _toml(name, now))
        for name in then.differs(now)
    }


def _toml(name: str, setting: Setting) -> str:
    text = _value(name, setting)
    return text if name in ("max_batch", "reserve") else f'"{text}"'


def fragment(advice: Advice, section: str) -> str:
    """Returns what to write into penstock.toml; empty if nothing changes. `section`: the model's table, dotted."""
    lines: list[str] = []
    tiers: list[str] = []
    for name, (new, old) in changed(advice).items():
        line = f"{name} = {new}  # was {old}{'; needs a restart' if name in NEEDS_RESTART else ''}"
        (tiers if name == "order" else lines).append(line)
    tables = [f"[{section}]", *lines] * bool(lines) + ["[tiers]", *tiers] * bool(tiers)
    return "\n".join(tables)


def as_dict(advice: Advice, section: str, assumed: Sequence[str]) -> Mapping[str, object]:
    """Returns the fields of `--json`."""
    goal = advice.goal
    return {
        "objective": goal.objective,
        "within_ms": round(goal.within * 1e3, 4) if goal.saves_gpus else None,
        "keeps": goal.keeps(advice.advised),
        "changes": {name: new for name, (new, _) in changed(advice).items()},
        "gain": round(advice.gain, 4),
        "fragment": fragment(advice, section),
        "in_force": _played(advice.in_force),
        "advised": _played(advice.advised),
        "best": _played(advice.best),
        "front": [_played(each) for each in advice.front],
        "tried": advice.tried,
        "of": advice.of,
        "unit_of_gpu_seconds": "for 1,000 answers",
        "assumed": list(assumed),
    }


def _played(played: Played) -> dict[str, object]:
    setting = asdict(played.setting)
    setting["order"] = order_of(played.setting)
    del setting["strict"]
    return {
        **setting,
        "latency_ms": _spread(played.latency),
        "gpu_seconds": round(played.gpu_seconds, 5),
        "answered": round(played.answered, 6),
        "mean_batch": round(played.batch, 3),
        "busy": round(played.busy, 4),
    }


def _spread(latency: Latency) -> dict[str, float]:
    return {name: round(seconds * 1e3, 4) for name, seconds in asdict(latency).items()}


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.1f} ms"
