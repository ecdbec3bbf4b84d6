"""The tables of `python -m benchmarks.gpu`, and whether Penstock keeps what is promised of it, made of what `parts`
measured. `__main__` prints both."""

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.figure import Check, number
from benchmarks.generator import Measured
from benchmarks.gpu.contenders import DEFAULT, MOSEC
from benchmarks.gpu.loads import Result
from benchmarks.gpu.parts import CLOSED, COLD, OPEN, REDIS, REDIS_LOAD, TWO, Findings
from benchmarks.table import markdown_table

OF_ALONE = 0.98  # of the rate of the function alone, at least
OF_POLICIES = 1.02  # of the time under the best other policy, at most
OF_MOSEC = 2 / 3  # of Mosec's time, at most
# Over Redis: of the embedded rate at least; beyond its p99 at most.
OF_EMBEDDED, BEYOND_EMBEDDED_MS = 0.95, 5.0
OURS = (DEFAULT, "powers")  # what is promised of; the others are what it is held against
MEANS: dict[str, Callable[[Measured], float | None]] = {
    "mean": lambda got: got.mean,
    "p95": lambda got: got.p95,
    "p99": lambda got: got.p99,
}


def tables(found: Findings) -> list[str]:
    title = f"### {found.settings.shape.title}\n"
    if not found.alone:
        return [title]
    parts = [title, _alone(found.alone)]
    closed = [result for result in found.results if result.load is None]
    if closed:
        parts.append(_closed(closed, found.alone["best_rate"]))
    for part, words in ((OPEN, "warm"), (TWO, "several workers"), (COLD, "cold"), (REDIS, "over Redis")):
        rows = [result for result in found.of(part) if result.measured is not None]
        if rows:
            parts.append(_open(words, rows))
    return parts


def _alone(alone: dict[str, Any]) -> str:
    rows = [
        [str(each["size"]), number(each["first_ms"]), number(each["mean_ms"]), f"{each['rate']:,.0f}"]
        for each in alone["sizes"]
    ]
    return markdown_table(["the function alone, batch", "first, ms", "then, ms", "inputs/s"], rows)


def _closed(results: Sequence[Result], best: float) -> str:
    rows = [
        [
            result.title,
            f"{result.rate:,.0f}",
            f"{result.rate / best:.3f}",
            *_busy(result),
            f"{result.errors:,}",
        ]
        for result in results
    ]
    header = [
        "closed loop", "requests/s", "× alone", "batch", "in it, ms", "gap, ms", "gap p90", "busy", "errors",
    ]  # fmt: skip
    return markdown_table(header, rows)


def _open(words: str, results: Sequence[Result]) -> str:
    rows = []
    for result in results:
        got = result.measured
        assert got is not None
        rows.append(
            [
                f"{result.load:g} %",
                result.title,
                *map(number, (got.mean, got.p95, got.p99)),
                *_busy(result),
                number(got.lateness_p99),
                f"{result.errors:,}",
            ]
        )
    header = [
        f"open loop, {words}", "server", "mean", "p95", "p99", "batch", "in it, ms", "gap, ms", "gap p90", "busy",
        "late, p99", "errors",
    ]  # fmt: skip
    return markdown_table(header, rows, left=2)


def _busy(result: Result) -> list[str]:
    did = result.busy
    if did is None:
        return ["–"] * 5
    return [*map(number, (did.size, did.inside, did.gap, did.gap_p90)), f"{did.share:.1%}"]


def promises(found: Findings) -> list[Check]:
    if not found.alone:
        return []
    return [
        *_fed(found),
        *_no_worse(found, OPEN),
        *_no_worse(found, COLD),
        *_crowds(found),
        *_over_redis(found),
    ]


def _fed(found: Findings) -> list[Check]:
    """How much of what the function does alone comes out in the closed loop."""
    return [
        Check(
            f"{found.settings.model}: closed loop, {result.title}, of the function alone",
            result.rate / found.alone["best_rate"],
            OF_ALONE,
            "×",
            at_least=True,
        )
        for result in found.of(CLOSED)
        if result.contender in OURS
    ]


def _no_worse(found: Findings, part: str) -> list[Check]:
    """Ours beside every other policy with the same sizes, and beside Mosec."""
    checks = []
    results = found.of(part)
    for load in dict.fromkeys(result.load for result in results if result.load is not None):
        at = {each.contender: each for each in results if each.load == load and each.measured is not None}
        for ours in OURS:
            if ours not in at:
                continue
            padded = ours == "powers"
            others = [
                each
                for name, each in at.items()
                if name not in OURS and not name.startswith(("mosec", "litserve"))
                and name.endswith("-powers") == padded
            ]  # fmt: skip
            where = f"{found.settings.model}, {'cold, ' if part == COLD else ''}{load:g} %, {at[ours].title}"
            for name, of in MEANS.items():
                measured = _figure(at[ours], of)
                best = [value for value in (_figure(each, of) for each in others) if value is not None]
                if best:
                    checks.append(Check(f"{where}: {name}, of any policy", measured, OF_POLICIES * min(best)))
                rival = _figure(at[MOSEC], of) if MOSEC in at else None
                if rival is not None:
                    checks.append(Check(f"{where}: {name}, 2/3 of Mosec", measured, OF_MOSEC * rival))
    return checks


def _crowds(found: Findings) -> list[Check]:
    """Several workers on one GPU are no worse than one."""
    checks = []
    for result in found.of(TWO):
        one = result.contender.rsplit("-", 1)[0]
        pairs = [each for each in found.results if each.contender == one and each.load == result.load]
        beside = [each for each in pairs if each.part in (CLOSED, OPEN)]
        if not beside:
            continue
        where = f"{found.settings.model}, {result.title}"
        if result.measured is None:
            checks.append(
                Check(
                    f"{where}: closed loop, of one's", result.rate / beside[0].rate, 1.0, "×", at_least=True
                )
            )
            continue
        for name, of in MEANS.items():
            limit = _figure(beside[0], of)
            if limit is not None:
                measured = _figure(result, of)
                checks.append(Check(f"{where}, {result.load:g} %: {name}, of one's", measured, limit))
    return checks


def _over_redis(found: Findings) -> list[Check]:
    checks = []
    for result in found.of(REDIS):
        embedded = result.contender.removesuffix("-redis")
        part = CLOSED if result.load is None else OPEN
        beside = [each for each in found.of(part) if each.contender == embedded and each.load == result.load]
        if not beside:
            continue
        where = f"{found.settings.model}, {result.title}"
        loaded = "closed loop" if result.load is None else f"{REDIS_LOAD:g} %"
        checks.append(
            Check(
                f"{where}, {loaded}: throughput, of embedded",
                result.rate / beside[0].rate,
                OF_EMBEDDED,
                "×",
                at_least=True,
            )
        )
        p99 = _figure(beside[0], MEANS["p99"])
        if p99 is not None:
            checks.append(
                Check(
                    f"{where}: p99, 5 ms beyond embedded",
                    _figure(result, MEANS["p99"]),
                    p99 + BEYOND_EMBEDDED_MS,
                )
            )
    return checks


def _figure(result: Result, of: Callable[[Measured], float | None]) -> float | None:
    return None if result.measured is None else of(result.measured)
