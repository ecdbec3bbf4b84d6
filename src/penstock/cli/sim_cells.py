"""`penstock sim --cells`: what limits at each decade of the traffic, and how many cells that takes. `cli/sim.py`
calls it; `advice/cells.py` calculates, and the simulator plays one cell of each size."""

from dataclasses import asdict, replace

from rich.console import Console
from rich.table import Table

from penstock.advice.cells import Site, cells_of, site_of
from penstock.cli.json_file import write_json
from penstock.load.traffic import Traffic, make_schedule
from penstock.sim.kernel import Scenario
from penstock.sim.study import study

FIRST = 1_000.0  # requests a second
PLAYED = 40_000  # requests of one cell that are simulated
WARM_UP = 1.0  # seconds


def show_cells(scenario: Scenario, rate: float, json: str | None) -> None:
    """Prints a row for each decade up to the rate. `json`: the file for the figures, or - for standard output."""
    each, full = _throughput(scenario)
    rows = []
    for decade in _decades(rate):
        cells = cells_of(decade, each, full)
        cell = site_of(decade / cells, each, full)
        rows.append((site_of(decade, each, full), cells, cell, _p99(scenario, cell)))
    if json is not None:
        found = [
            {**asdict(whole), "redis": whole.redis, "limit": whole.limit, "cells": cells, "cell": asdict(cell),
             "cell_p99_ms": p99}
            for whole, cells, cell, p99 in rows
        ]  # fmt: skip
        write_json(found, json)
    Console(stderr=json == "-").print(_table(rows))


def _throughput(scenario: Scenario) -> tuple[float, int]:
    """Returns how many requests a second one GPU does at its best batch size, and that size."""
    sizes = range(1, scenario.rules.max_batch + 1)
    best = max(sizes, key=lambda size: size / scenario.service.level(size))
    return best / scenario.service.level(best), best


def _decades(rate: float) -> list[float]:
    decades = []
    step = FIRST
    while step < rate:
        decades.append(step)
        step *= 10.0
    return [*decades, rate]


def _p99(scenario: Scenario, cell: Site) -> float | None:
    """Returns the p99 of one cell in milliseconds, in virtual time: gateways and Redis take no time there."""
    seconds = max(WARM_UP, PLAYED / cell.rate)
    schedule = make_schedule(Traffic(cell.rate, seconds, WARM_UP, seed=scenario.seed))
    played = replace(scenario, workers=cell.gpus)
    return study(played, schedule, WARM_UP, (), None).summary.latency_ms.p99


def _table(rows: list[tuple[Site, int, Site, float | None]]) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim")
    for heading in (
        "requests/s", "GPUs", "gateways", "batchers", "processes", "Redis", "requests", "registry", "lines",
        "limit", "cells", "a cell's p99",
    ):  # fmt: skip
        table.add_column(heading, justify="right", no_wrap=True)
    for whole, cells, _, p99 in rows:
        shares = (whole.redis, whole.requests, whole.registry, whole.lines)
        table.add_row(
            f"{whole.rate:,.0f}",
            f"{whole.gpus:,}",
            f"{whole.gateways:,}",
            f"{whole.batchers:,}",
            f"{whole.processes:,}",
            *(f"{share:,.0%}" for share in shares),
            whole.limit or "–",
            f"{cells:,}",
            "–" if p99 is None else f"{p99:,.1f} ms",
        )
    return table
