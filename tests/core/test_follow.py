"""A batcher that goes by other rules from one moment to the next, while requests wait."""

from dataclasses import replace

from core_kit import ask, batcher_with, finish, offer, sent, teach, worker

from penstock.core.admission import Admission
from penstock.core.buffer import TierRules
from penstock.core.capacity import CapacityRules
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.types import Result

WINDOW = BatchingRules(policy="window", max_batch=10, max_wait=5.0, tiers=TierRules(weights=(1.0, 1.0)))


def test_requests_that_wait_are_sent_by_the_new_policy_and_the_new_wait() -> None:
    batcher = batcher_with(1, WINDOW)
    offer(batcher, ask(), ask())
    assert sent(batcher.step(0.0)) == []
    batcher.follow(replace(WINDOW, max_wait=1.0))
    assert batcher.step(0.5).wake == 1.0
    batcher.follow(replace(WINDOW, policy="greedy"))
    assert sent(batcher.step(0.6)) == [2]


def test_the_weights_of_tiers_and_their_order_hold_for_lanes_that_are_open() -> None:
    rules = replace(WINDOW, policy="greedy", max_batch=8)
    batcher = batcher_with(1, rules)
    offer(batcher, *(ask(tier=tier) for tier in (0, 1) for _ in range(100)))
    assert sent(batcher.step(0.0)) == [8]

    def of_the_best(rounds: int) -> float:
        """The part of the next batches that is of the best tier."""
        number = 0
        for _ in range(rounds):
            finish(batcher, worker(0), Result([b"1"] * 8), 1.0)
            [(_, batch)] = batcher.step(1.0).dispatches
            number += sum(request.tier == 0 for request in batch.requests)
        return number / (8 * rounds)

    assert of_the_best(4) == 0.5
    batcher.follow(replace(rules, tiers=TierRules(weights=(7.0, 1.0))))
    assert of_the_best(4) == 7 / 8
    batcher.follow(replace(rules, tiers=TierRules(weights=(1.0, 1.0), strict=True)))
    assert of_the_best(4) == 1.0


def test_how_long_a_batch_may_run_holds_for_the_next_one() -> None:
    batcher = batcher_with(1, replace(WINDOW, policy="greedy"))
    batcher.follow(replace(WINDOW, policy="greedy", processing=9.0))
    offer(batcher, ask())
    [(_, batch)] = batcher.step(0.0).dispatches
    assert batch.limit == 9.0


def test_another_bound_of_the_queue_holds_at_once_even_where_no_closer_look_was_due() -> None:
    batcher = batcher_with(2, replace(WINDOW, policy="greedy"))
    admission = Admission(batcher, AdmissionRules(), CapacityRules())
    offer(batcher, *(ask(deadline=50.0) for _ in range(20)))
    assert sent(batcher.step(0.0)) == [10, 10]
    teach(batcher, 0.1)

    def come(number: int) -> list[str]:
        said = []
        for _ in range(number):
            request = ask(expires=50.0, deadline=50.0)
            refused = admission.refusal(request, 0.0)
            said.append("" if refused is None else refused.message)
            if refused is None:
                offer(batcher, request)
        return said

    assert come(20) == [""] * 20
    rules = batcher.rules
    batcher.follow(rules)
    admission.follow(AdmissionRules(max_queue=5), CapacityRules(max_queue=5))
    assert come(2) == ["the queue is full: limits.max_queue is 5"] * 2
    batcher.follow(rules)
    admission.follow(AdmissionRules(), CapacityRules())
    assert come(2) == ["", ""]


def test_the_depths_at_which_tiers_are_refused_change() -> None:
    batcher = batcher_with(1, replace(WINDOW, policy="greedy"))
    admission = Admission(batcher, AdmissionRules(), CapacityRules())
    assert admission._gate.rules.lowest_share == 0.7
    admission.follow(AdmissionRules(), CapacityRules(lowest_share=0.2))
    assert admission._gate.rules.lowest_share == 0.2


def test_what_is_learned_by_or_shapes_batches_cannot_be_followed() -> None:
    changed = replace(WINDOW, policy="greedy", max_wait=1.0, reserve=1, max_lanes=2, processing=9.0)
    assert changed.can_follow(WINDOW)
    assert replace(WINDOW, tiers=TierRules(weights=(2.0, 1.0), strict=True)).can_follow(WINDOW)
    assert not replace(WINDOW, max_batch=11).can_follow(WINDOW)
    assert not replace(WINDOW, tiers=TierRules(weights=(2.0, 1.0, 1.0))).can_follow(WINDOW)
