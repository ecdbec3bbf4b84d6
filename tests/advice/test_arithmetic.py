"""The arithmetic of planning, against figures that can be worked out by hand."""

from math import inf

import pytest

from penstock.advice import arithmetic
from penstock.advice.arithmetic import Need
from penstock.advice.curve import parse_curve

FIRST, SECOND = parse_curve("100ms x 32"), parse_curve("200ms x 64")


def test_the_two_estimates() -> None:
    assert arithmetic.throughput(FIRST) == pytest.approx(320.0)
    assert arithmetic.least_workers(FIRST, 1000.0) == 4
    assert arithmetic.enough_workers(FIRST, 1000.0, 0.2, 0.99) == 4
    assert arithmetic.least_workers(SECOND, 10_000.0) == 32
    assert arithmetic.enough_workers(SECOND, 10_000.0, 0.25, 0.99) == 32


def test_a_rate_that_is_just_the_capacity_needs_one_more() -> None:
    assert arithmetic.least_workers(FIRST, 320.0) == 2


def test_latency_is_that_of_the_floor_and_of_the_crowd_near_capacity() -> None:
    gap, load = 0.1 / 4, 1000 / 1280
    crowd, chance = gap / (64 * (1 - load)) * 4.60517, 0.08076  # of 32 or more where 25 are expected
    found = arithmetic.latency(FIRST, 4, 1000.0, 0.99)
    assert found == pytest.approx(gap * 4.99 + crowd * chance, rel=1e-4)
    assert arithmetic.latency(FIRST, 3, 1000.0, 0.99) == inf
    assert arithmetic.latency(FIRST, 100, 10.0, 0.99) == 0.1


def test_a_tighter_objective_needs_more_gpus() -> None:
    found = [
        arithmetic.enough_workers(FIRST, 1000.0, limit, 0.99) for limit in (0.15, 0.12, 0.11, 0.102, 0.1)
    ]
    assert found == sorted(found, key=lambda number: number or 0)
    assert found[0] == 4
    assert found[-1] == 100  # one for each request
    for number, limit in zip(found, (0.15, 0.12, 0.11, 0.102, 0.1), strict=True):
        assert number is not None
        assert arithmetic.latency(FIRST, number, 1000.0, 0.99) <= limit
        assert number == 4 or arithmetic.latency(FIRST, number - 1, 1000.0, 0.99) > limit


def test_no_number_of_gpus_answers_sooner_than_a_batch_of_one() -> None:
    assert arithmetic.enough_workers(FIRST, 1000.0, 0.09, 0.99) is None
    assert arithmetic.enough_workers(FIRST, 1e9, 1.0, 0.99) is None  # more than can be simulated


def test_throughput_is_that_of_the_best_batch_not_of_the_largest() -> None:
    assert arithmetic.throughput(parse_curve("1=10ms,16=16ms,64=100ms")) == pytest.approx(1000.0)


def test_what_stands_around_the_gpus() -> None:
    small = arithmetic.around(Need(1000.0, 0.2))
    assert (small.gateways, small.batchers, small.stores, small.one_process) == (2, 2, 1, True)
    assert small.memory == arithmetic.LEAST_MEMORY
    large = arithmetic.around(Need(50_000.0, 0.2, bursts=2.0, async_share=0.1))
    assert (large.gateways, large.batchers, large.stores, large.one_process) == (7, 5, 2, False)
    waiting, kept = 100_000 * 2 * 5120, 5000 * 600 * 3072
    assert large.memory == pytest.approx((waiting + kept / 0.6) / 0.8)
    assert large.clients_in == 100_000 * 3072
    assert large.store_in == large.store_out == 100_000 * 5120
    assert arithmetic.around(Need(1000.0, 0.2), spare=0).gateways == 1


def test_cost() -> None:
    assert arithmetic.cost_per_million(4, 3.6, 1000.0) == pytest.approx(4.0)
