"""The standings of `python -m benchmarks.peers` as a table, a chart and JSON, made of what `rounds` measured."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks import heads
from benchmarks.chart import Bar, bar_chart
from benchmarks.echo import SIZE
from benchmarks.figure import reach
from benchmarks.machine import Machine
from benchmarks.peers.rounds import Standing
from benchmarks.table import markdown_table
from benchmarks.wrk import Load

BARS = {"penstock": "ours", "penstock-keys": "ours", "granian": "limit"}  # how each is drawn


def table(standings: Sequence[Standing], kind: str) -> str:
    """`kind`: of heads."""
    rates = {s.peer.name: s.rate for s in standings}
    rows = [
        [s.peer.title, f"not run: {s.not_run}", "–", "–", "–", "–", "–"]
        if s.rate is None
        else [
            s.peer.title,
            s.peer.setting,
            f"{s.rate:,.0f}",
            reach([m.rate for m in s.measurements]),
            ratio(s.rate, rates.get("granian")),
            ratio(s.rate, rates.get("mosec")),
            f"{s.errors:,}",
        ]
        for s in _by_rate(standings)
    ]
    header = [
        "server",
        "setting",
        f"requests/s, {kind} heads",
        "range",
        "× bare Granian",
        "× Mosec",
        "errors",
    ]
    return markdown_table(header, rows, left=2)


def ratio(rate: float, other: float | None) -> str:
    if not other:
        return "–"
    times = rate / other
    return f"{times:.2f}" if times >= 0.1 else f"{times:.3f}"


def chart(standings: Sequence[Standing], kind: str, load: Load, size: int = SIZE) -> str:
    bars = [
        Bar(
            label=s.peer.title,
            value=s.rate,
            text=f"not run: {s.not_run}"[:60] if s.rate is None else f"{s.rate:,.0f}",
            kind=BARS.get(s.peer.name, "bar"),
        )
        for s in _by_rate(standings)
    ]
    title = f"Requests per second to an echo function and back, {kind} heads"
    return bar_chart(title, method(standings, kind, load, size), bars)


def method(standings: Sequence[Standing], kind: str, load: Load, size: int = SIZE) -> str:
    rounds = max((len(s.measurements) for s in standings), default=0)
    return (
        f"wrk, {load.connections} connections, {heads.ABOUT[kind]}, "
        f"{round(size / 1e3):,} KB JSON in and out, batches up to 64; "
        f"median of {rounds} interleaved rounds of {load.seconds} s"
    )


def figures(standings: Sequence[Standing], kind: str, load: Load, machine: Machine) -> dict[str, Any]:
    return {
        "machine": asdict(machine),
        "heads": kind,
        "load": asdict(load),
        "peers": [
            {
                "name": s.peer.name,
                "title": s.peer.title,
                "setting": s.peer.setting,
                "requests_per_second": s.rate,
                "errors": s.errors,
                "not_run": s.not_run or None,
                "rounds": [{**asdict(m), "rate": m.rate} for m in s.measurements],
            }
            for s in standings
        ],
    }


def write(
    folder: Path,
    standings: Sequence[Standing],
    kind: str,
    load: Load,
    machine: Machine,
    command: str,
    size: int = SIZE,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    words = f"{method(standings, kind, load, size)}.\n\n{machine}.\n\n`{command}`\n"
    page = f"# Overhead beside the peers\n\n{words}\n{table(standings, kind)}\n![requests per second](peers.svg)\n"
    (folder / "peers.md").write_text(page)
    (folder / "peers.svg").write_text(chart(standings, kind, load, size))
    (folder / "peers.json").write_text(json.dumps(figures(standings, kind, load, machine), indent=2) + "\n")


def _by_rate(standings: Sequence[Standing]) -> list[Standing]:
    """Fastest first; those without a figure last."""
    return sorted(standings, key=lambda s: -(s.rate or 0.0))
