from dataclasses import replace
from xml.etree import ElementTree

import pytest
from benchmarks.closed_loop import together
from benchmarks.generator import Measured
from benchmarks.installation import Layout
from benchmarks.open_loop import batches, merged
from benchmarks.open_loop_process import Seen
from benchmarks.processor import parse
from benchmarks.valkey import calls, grown
from benchmarks.wrk import Load, Measurement

from benchmarks import all as everything
from benchmarks import redis_headline, redis_pacing, redis_scaling, redis_throughput
from penstock.bench.scrape import Window
from penstock.errors import UserMistake
from penstock.load.report import Batches

GOOD = Measured(mean=109.0, p50=108.0, p95=117.0, p99=118.0, goodput=1000.0, sent=100_000, ok=100_000)
SEEN = Seen(0.0, 10.0, [0.1, 0.2], [0.01], [0.0, 0.001, 0.002], {"OVERLOADED": 1}, 0)
LOAD = Load(512, 1, 4)


def turn(rate: float, commands: int = 0) -> redis_throughput.Turn:
    answers = int(rate * 4)
    return redis_throughput.Turn(
        Measurement(answers, 4.0, 0, 0), {"gateway": 1.0}, {"xadd": commands} if commands else {}
    )


def test_throughput_is_held_against_the_rate_the_embedded_server_and_the_commands() -> None:
    figure = redis_throughput.figure([turn(12_000, 9_600)], [turn(30_000)], LOAD, 2)
    assert [(check.measured, check.holds) for check in figure.checks] == [
        (12_000.0, True),
        (0.4, False),
        (0.2, True),
    ]
    assert "| over Redis | gateway |                20.8 |" in figure.tables[1]
    assert "| xadd          |          0.2000 |" in figure.tables[2]


def test_an_installation_that_answers_nothing_falls_short_of_everything() -> None:
    figure = redis_throughput.figure([turn(0.0)], [turn(0.0)], LOAD, 2)
    assert not any(check.holds for check in figure.checks)


def test_commands_are_counted_without_the_question_itself_and_the_most_frequent_first() -> None:
    said = {"cmdstat_xadd": {"calls": 7}, "cmdstat_info": {"calls": 2}, "cmdstat_zadd": {"calls": 3}}
    assert calls(said) == {"xadd": 7, "zadd": 3}
    assert grown({"xadd": 5, "xack": 1}, {"xadd": 7, "xack": 1, "zadd": 3}) == {"zadd": 3, "xadd": 2}


def test_the_processor_time_is_read_whatever_the_process_is_called() -> None:
    stat = parse("12 (a) b) (c) S 7 " + " ".join(str(field) for field in range(5, 24)))
    assert stat.parent == 7
    assert stat.seconds > 0


def test_the_floor_of_case_a_is_where_the_promises_start() -> None:
    checks = redis_pacing.promises({"middle": replace(GOOD, mean=113.0)})
    assert [round(check.limit, 1) for check in checks] == [113.8, 125.1, 134.0]
    assert all(check.holds for check in checks)


@pytest.mark.parametrize(("two", "holds"), [(28.0, True), (26.0, False), (None, False)])
def test_two_batchers_must_fill_their_batches_nearly_as_one_does(two: float | None, holds: bool) -> None:
    measured = {"single": replace(GOOD, batch=30.0), "shared": replace(GOOD, batch=two)}
    assert [check.holds for check in redis_pacing.promises(measured)] == [holds]


def test_the_rows_of_pacing_can_be_chosen_and_a_wrong_one_is_answered_with_the_known_ones() -> None:
    assert [row.batchers for row in redis_pacing.wanted("single, shared")] == [1, 2]
    with pytest.raises(UserMistake, match="unknown row 'double': choose from middle, single, shared"):
        redis_pacing.wanted("double")


def test_what_several_generators_saw_is_merged_request_by_request() -> None:
    other = Seen(0.1, 10.0, [0.3, 0.4], [], [0.0, 0.0], {"OVERLOADED": 2, "CONNECT": 1}, 0)
    got = merged([SEEN, other], Batches(2, 32.0))
    assert (got.sent, got.ok, got.rejected, got.errors) == (8, 4, 1, 4)
    assert (got.mean, got.p50, got.p99) == (250.0, 200.0, 400.0)
    assert (got.goodput, got.batch) == (0.4, 32.0)


def test_the_mean_batch_of_several_batchers_counts_each_batch_once() -> None:
    told = [Window(Batches(10, 32.0), None), Window(Batches(30, 16.0), None)]
    assert batches(told).mean_size == 20.0
    assert batches([*told, None]).mean_size is None


def test_generators_side_by_side_add_their_answers_and_not_their_time() -> None:
    both = together([Measurement(100, 5.0, 1, 0), Measurement(300, 4.0, 0, 2)])
    assert (both.rate, both.errors) == (80.0, 3)


@pytest.mark.parametrize(("most", "limit", "found"), [(10_000, 20_000, 10_000), (10_000, 7_300, 7_250)])
def test_the_highest_rate_that_holds_is_found_to_a_step(most: float, limit: float, found: float) -> None:
    tried: list[float] = []

    def holds(rate: float) -> bool:
        tried.append(rate)
        return rate <= limit

    assert redis_headline.highest(holds, most) == found
    assert len(tried) <= 8


def test_where_no_rate_holds_the_lowest_step_is_what_is_left_to_show() -> None:
    assert redis_headline.highest(lambda _: False, 10_000) == redis_headline.STEP


def test_the_headline_promise_is_latency_and_errors_together() -> None:
    assert redis_headline.Trial(replace(GOOD, p99=499.0, errors=99), 2.0).holds
    assert not redis_headline.Trial(replace(GOOD, p99=499.0, errors=100), 2.0).holds
    assert not redis_headline.Trial(replace(GOOD, p99=501.0), 2.0).holds
    assert not redis_headline.Trial(replace(GOOD, p99=None, sent=0), 2.0).holds


def test_the_headline_case_has_32_slots_unless_told_otherwise() -> None:
    layout = redis_headline.laid_out(redis_headline.arguments(["--workers", "8"]))
    assert (layout.workers, layout.slots) == (8, 4)
    with pytest.raises(UserMistake, match="cannot be dealt out to 5 processes"):
        redis_headline.laid_out(redis_headline.arguments(["--workers", "5"]))


def test_the_headline_figure_shows_the_floor_beside_what_was_measured() -> None:
    given = redis_headline.arguments(["--seconds", "1"])
    trial = redis_headline.Trial(replace(GOOD, p99=240.0, goodput=10_000.0), 6.5)
    figure = redis_headline.figure([trial], 10_000.0, redis_headline.laid_out(given), given)
    assert all(check.holds for check in figure.checks)
    assert "203.1" in figure.tables[0]
    assert "206.2" in figure.tables[0]


def test_scaling_is_told_by_core_in_a_table_and_a_chart() -> None:
    layouts = [Layout("t", gateways, 1, 2, 2) for gateways in (1, 2)]
    one = {"Valkey": 0.5, "gateway": 1.0, "batcher": 0.25, "worker": 0.25}
    turns = [
        [redis_scaling.Turn(Measurement(40_000, 4.0, 0, 0), one)],
        [
            redis_scaling.Turn(
                Measurement(72_000, 4.0, 0, 0), {kind: 2 * cores for kind, cores in one.items()}
            )
        ],
    ]
    figure = redis_scaling.figure(layouts, turns, LOAD, 2, 16)
    assert "| 2 × 1               |     18,000 |        1.80 |  4,500 |   4.0 |" in figure.tables[0]
    ElementTree.fromstring(figure.drawings["redis_scaling"])
    assert [check.holds for check in figure.checks] == [False, True]  # 18,000/s, and 4,500 of 5,000 a core
    assert redis_scaling.figure(layouts, turns, LOAD, 2, 2).checks == []


def test_the_processes_of_a_kind_and_their_functions_are_added_up() -> None:
    used = {"Valkey": 1.0, "gateway 1": 2.0, "gateway 2": 3.0, "worker": 1.0, "worker, its function": 0.5}
    assert redis_scaling.by_kind(used, 2.0) == {"Valkey": 0.5, "gateway": 2.5, "batcher": 0.0, "worker": 0.75}


def test_what_is_meant_for_many_cores_is_left_out_unless_asked_for() -> None:
    assert "redis_throughput" in everything.wanted("")
    assert "redis_scaling" not in everything.wanted("")
    assert "redis_scaling" in everything.wanted("", large=True)
    assert everything.wanted("redis_headline") == ["redis_headline"]
    given = everything.arguments(["--seconds", "2.5"])
    assert everything.passed_on("redis_throughput", given)[-1] == "2"
    assert everything.passed_on("redis_pacing", given)[-1] == "2.5"
