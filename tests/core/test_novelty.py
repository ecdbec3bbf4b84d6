"""Where a new size is dear once and any is allowed: which batches have one."""

from math import inf

import pytest
from core_kit import ask, batcher_with, finish, offer, outputs, sent, worker
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.batcher import Batcher
from penstock.core.fleet import Worker
from penstock.core.novelty import RARE, to_send
from penstock.core.rules import BatchingRules
from penstock.types import Rung, WarmUp

COST = 0.08


def known(*sizes: int, spent: bool = True) -> Worker:
    """A worker that has run these sizes. `spent`: and the time that it may give to new ones that do not pay."""
    return Worker(worker(0), met=set(sizes), new_size_from=1000.0 if spent else 0.0)


def level(size: int) -> float:
    return 0.005


def go(to: Worker, waiting: int, patience: float = inf, now: float = 0.0) -> int:
    return to_send(to, waiting, level, COST, patience, now)


def test_a_size_that_was_run_goes_as_it_is() -> None:
    assert go(known(1, 8, 50), 50) == 50


def test_instead_of_a_new_size_the_largest_known_one_goes_and_the_rest_is_kept() -> None:
    assert go(known(1, 2, 4, 8, 16, 32, 64), 50) == 32


def test_a_new_size_goes_where_the_rest_would_wait_for_longer_than_it_costs() -> None:
    assert go(known(1), 10) == 1
    assert go(known(1), 40) == 40  # by ones the last of them would wait for 0.2 s


def test_a_new_size_goes_where_nothing_smaller_was_run() -> None:
    assert go(known(64), 50) == 50


def test_if_the_rest_would_be_too_late_all_go_unless_the_new_size_makes_all_too_late() -> None:
    batches_before_the_last = 0.005 * 19
    assert go(known(1), 20, patience=COST) == 20
    assert go(known(1), 20, patience=batches_before_the_last - 0.001) == 20
    assert go(known(1), 20, patience=batches_before_the_last) == 1
    assert go(known(1), 20, patience=COST - 0.001) == 1


def test_now_and_then_a_new_size_goes_though_it_does_not_pay_at_once() -> None:
    one = known(1, 32, spent=False)
    assert go(one, 40) == 40
    one.met.add(40)
    assert go(one, 41) == 40
    assert go(one, 41, now=RARE * COST - 0.01) == 40
    assert go(one, 41, now=RARE * COST) == 41


@given(st.sets(st.integers(1, 256)), st.integers(1, 256), st.floats(-1.0, 2.0), st.booleans())
def test_what_goes_is_all_or_a_size_that_was_run(
    sizes: set[int], waiting: int, patience: float, spent: bool
) -> None:
    sends = go(known(*sizes, spent=spent), waiting, patience)
    assert sends == waiting or (sends in sizes and sends < waiting)


def warm(batcher: Batcher, cost: float) -> None:
    rungs = (Rung(size, 0.005 + cost, (0.005, 0.005)) for size in (1, 2, 4, 8, 16))
    batcher.worker_warmed(worker(0), WarmUp(tuple(rungs)), 0.0)


@pytest.mark.parametrize(("cost", "size"), [(COST, 8), (0.0, 11)])
def test_a_warmed_up_worker_is_sent_new_sizes_only_where_they_cost_no_more(cost: float, size: int) -> None:
    batcher = batcher_with(1, BatchingRules(max_batch=16, policy="greedy"))
    warm(batcher, cost)
    batcher.fleet.workers[worker(0)].new_size_from = 1000.0
    offer(batcher, *(ask() for _ in range(11)))
    assert sent(batcher.step(0.0)) == [size]
    batch = batcher.fleet.workers[worker(0)].batch
    assert batch is not None
    finish(batcher, worker(0), outputs(batch), 0.005)
    assert sum(sent(batcher.step(0.005))) == (2 if cost else 0)  # of the three that were kept, what fits
