"""What the figure of fairness makes of what its two tenants saw."""

from random import Random

from benchmarks.fairness import SERVICE, WARM_UP, figure, found
from benchmarks.tiered_load import Phase, Seen, TieredTraffic, requests, schedule

from penstock.bench.options import parse_server

BURST, TRICKLE = 0, 1


def seen(*rows: tuple[float, int, int]) -> Seen:
    """Each: when it was due after the warm-up, whose it was, and its status. All are answered within 0.1 s."""
    due = [WARM_UP + at for at, _, _ in rows]
    done = [at + 0.1 for at in due]
    tenants, statuses = [tenant for _, tenant, _ in rows], [status for _, _, status in rows]
    return Seen(due, tenants, due, done, statuses, [1] * len(rows), [0.0] * len(rows))


def test_both_tenants_are_told_apart_and_nobody_is_counted_outside_of_the_time() -> None:
    rows = [
        (-1.0, TRICKLE, 503),
        (0.0, TRICKLE, 200),
        (0.1, BURST, 503),
        (0.2, BURST, 200),
        (0.3, BURST, 504),
    ]
    row = found(seen(*rows, (1.5, TRICKLE, 503)), 1.0)
    assert (row.trickle, row.sent, row.failed) == (100.0, 1, 1)
    assert round(row.burst) == 33
    assert row.goodput == 100 * 2 / SERVICE.capacity


def test_a_trickle_that_is_refused_is_short_of_what_was_promised() -> None:
    row = found(seen((0.0, TRICKLE, 200), (0.1, TRICKLE, 503)), 1.0)
    promised = [check.holds for check in figure({0.01: row}, 1.0).checks]
    assert promised == [False, False]


def test_clients_that_name_no_time_limit_have_the_server_s() -> None:
    traffic = TieredTraffic("http://127.0.0.1:8000", [Phase(10.0, 1.0)], [1.0], [["key"]], timeout_ms=0)
    assert len(schedule(traffic, Random(1)))
    ((request,),) = requests(traffic, parse_server(traffic.url))
    assert b"timeout_ms" not in request
