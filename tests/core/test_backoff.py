"""Waiting before trying again, and how often that is allowed."""

from itertools import pairwise

import pytest

from penstock.core.backoff import RetryBudget, backoff


def test_the_wait_doubles_up_to_the_longest_and_keeps_at_least_half() -> None:
    for attempt, whole in ((1, 0.05), (2, 0.1), (3, 0.2), (10, 1.0)):
        waits = [backoff(attempt, 0.05, 1.0, salt) for salt in range(100)]
        assert whole / 2 <= min(waits) <= max(waits) < whole


def test_the_jitter_falls_evenly() -> None:
    waits = sorted(backoff(1, 1.0, 1.0, salt) for salt in range(100))
    assert max(later - earlier for earlier, later in pairwise(waits)) < 0.02


def test_a_budget_is_spent_and_earned_by_fresh_batches() -> None:
    budget = RetryBudget(ratio=0.5, per_second=0.0, limit=2.0)
    assert [budget.spend(0.0) for _ in range(3)] == [True, True, False]
    budget.earn()
    assert not budget.spend(0.0)
    budget.earn()
    assert budget.spend(0.0)
    for _ in range(100):
        budget.earn()
    assert [budget.spend(0.0) for _ in range(3)] == [True, True, False]


def test_a_budget_gains_a_few_a_second_besides_and_never_from_a_clock_that_stood_still() -> None:
    budget = RetryBudget(ratio=0.0, per_second=10.0, limit=3.0)
    spent = sum(budget.spend(100.0) for _ in range(10))
    assert spent == 3
    assert not budget.spend(99.0)
    assert budget.spend(100.0 + 0.11)
    assert sum(budget.spend(100.0 + tenth / 10) for tenth in range(2, 102)) == pytest.approx(100, abs=2)


def test_what_is_left_of_a_budget_is_told_without_spending_it() -> None:
    budget = RetryBudget(ratio=0.0, per_second=1.0, limit=4.0)
    assert budget.left(0.0) == 1.0
    assert all(budget.spend(0.0) for _ in range(3))
    assert (budget.left(0.0), budget.left(1.0), budget.left(100.0)) == (0.25, 0.5, 1.0)
    assert budget.spend(0.0)
    assert budget.left(0.0) == 0.0
