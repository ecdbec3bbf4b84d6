"""Two tenants of one tier, over HTTP with API keys: one sends 2.3 times the capacity, the other a trickle.

    python -m benchmarks.fairness

The server is as it is by default, but for the keys. Each tenant may have half of the capacity, so all of a trickle
below that should be served, whatever its neighbour sends.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.figure import Check, Figure, Say, conduct, number, options
from benchmarks.floors import Service
from benchmarks.overload_tiers import api_key, played
from benchmarks.serving import serving
from benchmarks.table import markdown_table
from benchmarks.tiered_load import Phase, Seen, TieredTraffic
from penstock.load.report import at_share

NAME = "fairness"
SERVICE = Service(a=0.100, workers=1, max_batch=64)  # what `penstock serve sim:100ms` has
TIER = "paid"
BURST = 2.3  # times the capacity
TRICKLES = (0.01, 0.2)  # of the capacity
WARM_UP = 3.0  # seconds, not counted
SERVED, GOODPUT = 99.0, 97.0  # promised: per cent of the trickle served, and of the capacity used


@dataclass(frozen=True, slots=True)
class Found:
    """What became of both; shares in per cent."""

    trickle: float  # served
    burst: float
    goodput: float  # of the capacity
    trickle_p95_ms: float | None
    sent: int  # by the trickle
    failed: int  # accepted, and answered neither 200 nor 503
    lateness: float  # of the generator, p99, seconds


def found(seen: Seen, seconds: float) -> Found:
    """Tenants stand where tiers stand in the load: 0 is the burst, 1 the trickle."""
    chosen = [index for index, due in enumerate(seen.due) if WARM_UP <= due < WARM_UP + seconds]
    sent, ok, failed = [0, 0], [0, 0], 0
    waits: list[float] = []
    for index in chosen:
        tenant, status = seen.tier[index], seen.status[index]
        sent[tenant] += 1
        ok[tenant] += status == 200
        failed += status not in (200, 503)
        if tenant and status == 200:
            waits.append(seen.done[index] - seen.due[index])
    waits.sort()
    late = sorted(seen.late)
    return Found(
        trickle=100 * ok[1] / max(1, sent[1]),
        burst=100 * ok[0] / max(1, sent[0]),
        goodput=100 * sum(ok) / seconds / SERVICE.capacity,
        trickle_p95_ms=at_share(waits, 0.95) * 1e3 if waits else None,
        sent=sent[1],
        failed=failed,
        lateness=at_share(late, 0.99) if late else 0.0,
    )


def offered(trickle: float, seconds: float) -> Found:
    with tempfile.TemporaryDirectory(prefix="penstock-fairness-") as folder:
        file = Path(folder, "keys.json")
        keys = [[api_key(file, name, TIER)] for name in ("burst", "trickle")]
        settings = {"PENSTOCK_AUTH_MODE": "keys", "PENSTOCK_AUTH_KEYS_FILE": str(file)}
        with serving(f"sim:{SERVICE.a * 1e3:g}ms", settings=settings) as server:
            phase = Phase((BURST + trickle) * SERVICE.capacity, WARM_UP + seconds)
            traffic = TieredTraffic(server.url, [phase], [BURST, trickle], keys, timeout_ms=0)
            return found(played(traffic, Path(folder, "seen")), seconds)


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    return options(NAME, __doc__, seconds=30.0).parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    rows: dict[float, Found] = {}
    for trickle in TRICKLES:
        say(
            f"{BURST:g} × the capacity of {SERVICE.capacity:,.0f}/s beside {trickle:g} ×, {given.seconds:g} s …"
        )
        rows[trickle] = offered(trickle, given.seconds)
    return figure(rows, given.seconds)


def figure(rows: dict[float, Found], seconds: float) -> Figure:
    header = [
        "trickle / capacity",
        "trickle served",
        "its p95, ms",
        "burst served",
        "goodput / capacity",
        "failed",
    ]
    cells = [
        [
            f"{trickle:g}", f"{row.trickle:.2f} % of {row.sent:,}", number(row.trickle_p95_ms),
            f"{row.burst:.1f} %", f"{row.goodput:.1f} %", str(row.failed),
        ]
        for trickle, row in rows.items()
    ]  # fmt: skip
    late = max(row.lateness for row in rows.values())
    return Figure(
        title="Fair admission",
        method=(
            f"`penstock serve sim:100ms` as it is by default, with API keys: one worker, batches up to "
            f"{SERVICE.max_batch}, a capacity of {SERVICE.capacity:,.0f}/s. Two tenants of the tier `{TIER}`, "
            f"Poisson, open loop, nobody tries again: one sends {BURST:g} × the capacity, the other the part of it "
            f"in the first column. {seconds:g} s after {WARM_UP:g} s of the same. Failed: answered neither 200 nor "
            f"503. The generator was late by {late * 1e3:.1f} ms, p99."
        ),
        tables=[markdown_table(header, cells)],
        checks=[
            check
            for trickle, row in rows.items()
            for check in (
                Check(f"trickle of {trickle:g} × served", row.trickle, SERVED, "%", at_least=True),
                Check(f"beside {trickle:g} ×: goodput / capacity", row.goodput, GOODPUT, "%", at_least=True),
            )
        ],
        data={"rows": {f"{trickle:g}": asdict(row) for trickle, row in rows.items()}},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
