from benchmarks.generator import Measured
from benchmarks.redis_throughput import Turn
from benchmarks.wrk import DISTINCT, DONE, ONE, PLACEHOLDER, Load, Measurement

from benchmarks import cache_miss, hot_keys
from penstock.bench.options import parse_server
from penstock.bench.plan import Shape, make_plan

GOOD = Measured(mean=240.0, p50=230.0, p95=400.0, p99=440.0, goodput=1000.0, sent=1000, ok=1000)


def turn(rate: float, cpu: float) -> Turn:
    return Turn(Measurement(int(rate * 4), 4.0, 0, 0), {"penstock serve": cpu * rate * 4 / 1e6})


def test_a_cache_that_misses_is_held_against_the_same_server_without_one() -> None:
    figure = cache_miss.figure({"embedded": ([turn(30_000, 30.0)], [turn(27_000, 33.0)])}, Load(512, 1, 4))
    (check,) = figure.checks
    assert (check.measured, check.holds) == (0.9, False)
    assert "| embedded | all misses |     27,000 |                33.0 |      0 |" in figure.tables[0]


def test_a_server_that_answers_nothing_has_no_figure() -> None:
    figure = cache_miss.figure({"redis": ([turn(0.0, 0.0)], [turn(0.0, 0.0)])}, Load(512, 1, 4))
    assert not figure.checks[0].holds


def test_every_body_of_the_load_is_another() -> None:
    assert cache_miss.BODY.count(PLACEHOLDER.encode()) == 1
    request = DISTINCT.format(placeholder=PLACEHOLDER, salt="s" * 16)
    script = (ONE + request + DONE).format(body='"b"', mark="m")
    assert 'string.format("ssssssssssssssss%08d%016d", name, sent)' in script


def test_nine_of_ten_requests_have_a_hot_input_and_the_others_each_their_own() -> None:
    server = parse_server("http://127.0.0.1:8000")
    plan = hot_keys.mixed(make_plan(Shape(rate=1000.0, duration=5.0, warmup=0.0), server))
    sent = [plan.request(index) for index in range(len(plan.times))]
    hot = [request for request in sent if b'"hot ' in request]
    assert len(set(hot)) == hot_keys.HOT_INPUTS
    assert 0.85 < len(hot) / len(sent) < 0.95
    assert len({request for request in sent if request not in set(hot)}) == len(sent) - len(hot)
    assert len({len(request) for request in sent}) == 1


def test_all_must_be_served_with_collapsing_and_nothing_is_promised_without() -> None:
    turns = {title: hot_keys.Turn(GOOD, 1000.0, 320.0) for title in hot_keys.SIDES}
    figure = hot_keys.figure(turns, 8.0)
    assert [check.holds for check in figure.checks] == [True, True]
    assert "0.32" in figure.tables[0]
    nobody = hot_keys.Turn(Measured(None, None, None, None, 0.0), 0.0, 0.0)
    assert not any(check.holds for check in hot_keys.figure(dict.fromkeys(turns, nobody), 8.0).checks)
