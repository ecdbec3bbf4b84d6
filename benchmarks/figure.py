"""What every benchmark shares: its options, its verdicts, and how its result is printed and written. The `main` of
each is a call of `conduct`."""

import argparse
import json
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from benchmarks import machine
from benchmarks.serving import DidNotServe
from benchmarks.table import markdown_table
from penstock.errors import UserMistake

RESULTS = Path(__file__).parent / "results"

Say = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Check:
    """A figure that was promised, and the one that was measured."""

    what: str
    measured: float | None  # None: nothing was answered, so there is no figure
    limit: float
    unit: str = "ms"
    at_least: bool = False

    @property
    def holds(self) -> bool:
        if self.measured is None:
            return False
        return self.measured >= self.limit if self.at_least else self.measured <= self.limit

    def row(self) -> list[str]:
        bound = f"{'≥' if self.at_least else '≤'} {self.limit:,.2f} {self.unit}"
        return [self.what, f"{number(self.measured)} {self.unit}", bound, "PASS" if self.holds else "short"]


@dataclass(slots=True)
class Figure:
    """A finished measurement, as it is printed and written."""

    title: str
    method: str
    tables: list[str] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    data: dict[str, Any] = field(default_factory=dict)
    drawings: dict[str, str] = field(default_factory=dict)  # SVG by name; the tables refer to them

    def body(self) -> str:
        parts = [*self.tables]
        if self.checks:
            rows = [check.row() for check in self.checks]
            parts.append(markdown_table(["promise", "measured", "limit", ""], rows))
        return "\n".join([*parts, *(f"{note}\n" for note in self.notes)])


def options(
    name: str, about: str | None, *, seconds: float | None = None, rounds: int | None = None
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.{name}", description=about)
    if seconds is not None:
        parser.add_argument(
            "--seconds", type=above_zero, default=seconds, help=f"of each measurement, {seconds:g} by default"
        )
    if rounds is not None:
        parser.add_argument("--rounds", type=at_least_one, default=rounds, help="medians are reported")
    parser.add_argument("--out", type=Path, default=RESULTS, metavar="FOLDER")
    return parser


def conduct(
    name: str,
    given: argparse.Namespace,
    measure: Callable[[argparse.Namespace, Say], Figure],
    argv: Sequence[str],
) -> int:
    """Measure, print, keep. 0: every promise held; 1: some fell short; 2: it could not be measured."""
    # A stop by SIGTERM unwinds as Ctrl-C does, so that the server of the moment is ended too.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    here = machine.describe()
    print(f"{here}\n", flush=True)
    try:
        figure = measure(given, lambda line: print(line, flush=True))
    except UserMistake as mistake:
        print(mistake.message, file=sys.stderr)
        return 2
    except (DidNotServe, RuntimeError) as failure:
        print(f"{name} could not be measured: {failure}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("stopped; nothing was written", file=sys.stderr)
        return 130
    keep(given.out, name, figure, here, shlex.join(["python", "-m", f"benchmarks.{name}", *argv]))
    print(f"\n{figure.body()}\nwritten: {given.out / name}.md and .json", flush=True)
    return 0 if all(check.holds for check in figure.checks) else 1


def keep(folder: Path, name: str, figure: Figure, here: machine.Machine, command: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    page = f"# {figure.title}\n\n{figure.method}\n\n{here}.\n\n`{command}`\n\n{figure.body()}"
    (folder / f"{name}.md").write_text(page, encoding="utf-8")
    for title, drawing in figure.drawings.items():
        (folder / f"{title}.svg").write_text(drawing, encoding="utf-8")
    kept = {
        "machine": asdict(here),
        "command": command,
        "checks": [{**asdict(check), "holds": check.holds} for check in figure.checks],
        **figure.data,
    }
    (folder / f"{name}.json").write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")


def number(value: float | None) -> str:
    """A figure with as many decimals as a reader needs."""
    if value is None:
        return "–"
    return f"{value:,.{2 if abs(value) < 100 else 1 if abs(value) < 1000 else 0}f}"


def chosen(names: str, known: Mapping[str, T], what: str) -> list[T]:
    """Some of what is known, by names with commas between; all of it where none are given. Raises UserMistake."""
    wanted = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    for name in wanted:
        if name not in known:
            raise UserMistake(f"unknown {what} {name!r}: choose from {', '.join(known)}")
    return [known[name] for name in wanted]


def reach(rates: Sequence[float]) -> str:
    """The lowest and the highest."""
    return f"{min(rates):,.0f}–{max(rates):,.0f}"


def above_zero(text: str) -> float:
    value = float(text)
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError("must be above 0")
    return value


def at_least_one(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value
