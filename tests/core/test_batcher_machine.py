"""Anything may happen to a batcher, in any order; these things hold all the same."""

from collections import Counter
from math import ceil, log2
from typing import Any

import pytest
from core_kit import AWAY, REFUSED, TIMED_OUT, held, outputs
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.core.batcher import Batcher
from penstock.core.buffer import TierRules
from penstock.core.culprit import culprit
from penstock.core.delivery import RetryRules
from penstock.core.lane import Lane, lane_key
from penstock.core.policy import POLICIES
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.core.sizes import ANY, Sizes, powers_to
from penstock.core.tier import SLACK
from penstock.types import Outcome, Reason, Result, WorkerId

WORKERS = [WorkerId(name) for name in ("a", "b", "c")]
MILLISECONDS = st.sampled_from([0, 1, 5, 16, 50, 51, 100, 400, 1500]).map(lambda ms: ms / 1000)
PATIENCE = st.sampled_from([(0.03, 0.03), (0.2, 0.2), (0.2, 0.5), (2.0, 4.0), (3.0, 2.1), (60.0, 60.0)])
REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 2),  # tier
        st.sampled_from(["", "ann", "bob"]),
        st.sampled_from([b"", b"", b"", b'{"t":1}', b'{"t":2}']),
        st.sampled_from([0.0, 1.0, 1.0, 2.5, 6.0]),  # cost
        st.sampled_from([0, 3, 100]),  # length
        PATIENCE,
    ),
    min_size=1,
    max_size=9,
)
LONGEST = {"ewma": 0.100, "table": 0.100}  # seconds that policies wait whose bounds are their own
HALF_AN_ULP = 1e-9  # of times that were added up in different orders


class AnythingGoes(RuleBasedStateMachine):
    policy = "paced"
    strict = False

    @initialize(
        max_batch=st.sampled_from([1, 4, 8]),
        max_cost=st.sampled_from([6.0, 10.0, float("inf")]),
        padded_cost=st.booleans(),
        per_item=st.booleans(),
        group_lengths=st.booleans(),
        reserve=st.sampled_from([0, 0, 1]),
        workers=st.integers(0, 3),
        sizes=st.sampled_from(["any", "powers", "few"]),
        ahead=st.booleans(),
    )
    def begin(
        self,
        max_batch: int,
        max_cost: float,
        padded_cost: bool,
        per_item: bool,
        group_lengths: bool,
        reserve: int,
        workers: int,
        sizes: str,
        ahead: bool,
    ) -> None:
        self.rules_in_force = BatchingRules(
            max_batch=max_batch,
            sizes={
                "any": ANY,
                "powers": powers_to(max_batch),
                "few": Sizes(tuple(sorted({min(3, max_batch), max_batch}))),
            }[sizes],
            max_wait=0.05,
            max_cost=max_cost,
            padded_cost=padded_cost,
            policy=self.policy,
            reserve=reserve,
            group_lengths=group_lengths,
            per_item_parameters=per_item,
            tiers=TierRules(strict=self.strict),
            retries=RetryRules(attempts=3),
            breaker_failures=3,
            breaker_cooldown=0.5,
            max_lanes=3,
            ahead=ahead,
        )
        self.batcher = Batcher(self.rules_in_force)
        self.now = 100.0
        self.wake: float | None = None
        self.accepted: list[Queued] = []
        self.outcomes: Counter[str] = Counter()
        self.gone_for_good: set[str] = set()  # withdrawn while waiting
        self.in_flight: dict[WorkerId, Sealed] = {}
        self.handed: dict[WorkerId, Sealed] = {}  # ahead, and not begun
        for name in WORKERS[:workers]:
            self.batcher.worker_ready(name)

    # ---- what may happen -----------------------------------------------------------------------------------

    @rule(wanted=REQUESTS, at_once=st.booleans())
    def arrive(self, wanted: list[Any], at_once: bool) -> None:
        for tier, tenant, parameters, cost, length, (expires, deadline) in wanted:
            now = self.now
            request = Queued(
                str(len(self.accepted)), "model", b'"x"' * (length + 1), now, now + expires, now + deadline,
                parameters=parameters, tenant=tenant, tier=tier, cost=cost, length=length,
            )  # fmt: skip
            if self.batcher.has_room_for(request):
                self.accepted.append(request)
                self.batcher.offer(request, now)
        if at_once:
            self.step()

    @rule(which=st.integers(0, 10_000))
    def leave(self, which: int) -> None:
        undecided = [request for request in self.accepted if not self.outcomes[request.key]]
        if undecided:
            request = undecided[which % len(undecided)]
            batches = [*self.in_flight.values(), *self.handed.values()]
            on_a_worker = any(request in batch.requests for batch in batches)
            assert self.batcher.withdraw(request) is not on_a_worker
            if not on_a_worker:
                self.outcomes[request.key] += 1
                self.gone_for_good.add(request.key)
            self.step()

    @rule(name=st.sampled_from(WORKERS))
    def worker_ready(self, name: WorkerId) -> None:
        self.batcher.worker_ready(name)
        self.step()

    @rule(name=st.sampled_from(WORKERS), back_in=st.sampled_from([None, 0.2]), removed=st.booleans())
    def worker_gone(self, name: WorkerId, back_in: float | None, removed: bool) -> None:
        self.in_flight.pop(name, None)
        self.handed.pop(name, None)
        if removed:
            self.batcher.worker_removed(name, self.now)
        else:
            self.batcher.worker_gone(name, self.now, None if back_in is None else self.now + back_in)
        self.step()

    @precondition(lambda self: self.in_flight)
    @rule(
        which=st.integers(0, 2),
        seconds=MILLISECONDS,
        how=st.sampled_from(["well", "well", "well", "short", "refused", "refused", "away", "timed out"]),
    )
    def complete(self, which: int, seconds: float, how: str) -> None:
        self.let_pass(seconds)
        name = list(self.in_flight)[which % len(self.in_flight)]
        self.finish(name, how)

    @rule(seconds=MILLISECONDS)
    def let_pass(self, seconds: float) -> None:
        """Time goes by; the batcher is woken when it asked to be."""
        until = self.now + seconds
        while self.wake is not None and self.wake <= until:
            self.now = self.wake
            self.step()
        self.now = until

    @rule(name=st.sampled_from(WORKERS))
    def what_was_handed_ahead_is_not_taken(self, name: WorkerId) -> None:
        batch = self.handed.pop(name, None)
        if batch is not None:
            self.batcher.finished(name, batch.id, AWAY, self.now)
            self.step()

    @rule(name=st.sampled_from(WORKERS))
    def late_word_from_a_worker_that_was_given_up(self, name: WorkerId) -> None:
        if name not in self.in_flight:
            self.batcher.finished(name, 0, Result([]), self.now)
            self.step()

    def teardown(self) -> None:
        """The end: no more arrivals, workers that work. Everybody gets an answer, and nothing is left."""
        if not hasattr(self, "batcher"):
            return
        self.batcher.drain()
        self.step()
        for _ in range(20 * len(self.accepted) + 100):
            if self.in_flight:
                self.finish(next(iter(self.in_flight)), "well")
            elif self.batcher.waiting:
                assert self.wake is not None, "something waits, and nobody will ever look again"
                self.now = self.wake
                self.step()
        assert all(self.outcomes[request.key] == 1 for request in self.accepted)
        assert self.batcher.waiting == self.batcher.depth.bytes == self.batcher.apart.depth.bytes == 0
        assert all(lane.buffer.cost == 0 for lane in self.lanes())

    # ---- what the server would do, and what must hold after each of its turns -------------------------------

    def finish(self, name: WorkerId, how: str) -> None:
        batch = self.in_flight.pop(name)
        failures = {"refused": REFUSED, "away": AWAY, "timed out": TIMED_OUT}
        good = outputs(batch)
        if how in ("away", "timed out"):  # the worker is lost
            self.handed.pop(name, None)
        if how in failures:
            self.batcher.finished(name, batch.id, failures[how], self.now)
        else:
            result = good if how == "well" else Result(good.outputs[1:])
            result.executed = int(self.rules_in_force.sizes.padded(batch.size))
            self.batcher.finished(name, batch.id, result, self.now)
        self.step()

    def step(self) -> None:
        batcher, now = self.batcher, self.now
        idle_before = {name for name in batcher.fleet.workers if name not in self.in_flight}
        doubted = batcher.parts.in_doubt(now) or not batcher.curve.samples
        effects = batcher.step(now)
        for reply in effects.replies:
            self.outcomes[reply.request.key] += 1
            assert self.outcomes[reply.request.key] == 1, "a second outcome"
            assert (reply.failure is None) is (reply.outcome is Outcome.SUCCESS)
        for number, (name, batch) in enumerate(effects.dispatches):
            assert name in idle_before
            idle_before.discard(name)
            assert batch is self.handed.pop(name, None) or not batch.ahead
            self.in_flight[name] = batch
            self.check_batch(batch, now, in_time=not (doubted and number == 0))
            if batcher.fleet.workers[name].on_probation:
                assert batch.size == 1
        for name, batch in effects.ahead:
            assert name in self.in_flight
            assert name not in self.handed
            assert batch.reason in (Reason.FULL, Reason.COST)
            self.handed[name] = batch
        self.wake = effects.wake
        self.check_wake()
        self.check_depth()
        self.check_memory()

    def check_batch(self, batch: Sealed, now: float, *, in_time: bool) -> None:
        rules, batcher = self.rules_in_force, self.batcher
        assert 1 <= batch.size <= rules.max_batch
        costs = [request.cost for request in batch.requests]
        assert (len(costs) * max(costs) if rules.padded_cost else sum(costs)) <= rules.max_cost
        keys = {
            lane_key(request, per_item=rules.per_item_parameters, group_lengths=rules.group_lengths)
            for request in batch.requests
        }
        assert len(keys) == 1, "a mix"
        if batch.apart:
            assert len({culprit(request) for request in batch.requests}) == 1, "nobody shares with them"
        if rules.per_item_parameters:
            assert batch.parameters.count(b"{") == batch.size
        lane = batcher.lanes.get(keys.pop())
        curve = batcher.curve if batch.retry or batch.apart or lane is None else lane.curve
        for request in batch.requests:
            assert request.key not in self.gone_for_good
            assert not request.waiting
            if batch.ahead:
                continue  # the batch before it may have taken any time
            assert now <= request.expires
            assert now <= request.deadline
            if in_time:
                assert now + curve(min(batch.size, curve.largest)) <= request.deadline + HALF_AN_ULP
            assert request.executions <= rules.retries.attempts + ceil(log2(rules.max_batch)) + 2

    def check_wake(self) -> None:
        batcher = self.batcher
        assert self.wake is None or self.wake > self.now, "woken again at the same instant, for ever"
        if batcher.waiting:
            assert self.wake is not None, "a lost wake-up"
        if batcher.fleet.idle:
            for lane in batcher.lanes.values():
                oldest = lane.buffer.oldest()
                if oldest is not None:
                    assert self.now < oldest.arrival + LONGEST.get(
                        self.policy, self.rules_in_force.max_wait
                    ), "the longest wait is over"

    def check_depth(self) -> None:
        batcher = self.batcher
        for apart, depth, lanes in (
            (False, batcher.depth, batcher.lanes),
            (True, batcher.apart.depth, batcher.apart.lanes),
        ):
            waiting = [r for r in self.accepted if r.waiting and r.apart is apart]
            assert depth.total == len(waiting) == sum(lane.buffer.waiting for lane in lanes.values())
            assert depth.by_tier == [sum(request.tier == tier for request in waiting) for tier in range(3)]
            assert depth.bytes == sum(len(request.input) for request in waiting)
        undecided = sum(1 for request in self.accepted if not self.outcomes[request.key])
        with_workers = [*self.in_flight.values(), *self.handed.values()]
        assert undecided == self.batcher.waiting + sum(batch.size for batch in with_workers)

    def check_memory(self) -> None:
        assert len(self.batcher.lanes) <= self.rules_in_force.max_lanes
        for lane in self.lanes():
            assert held(lane.buffer) <= 4 * lane.buffer.waiting + SLACK

    def lanes(self) -> list[Lane]:
        return [*self.batcher.lanes.values(), *self.batcher.apart.lanes.values()]


@pytest.mark.parametrize("strict", [True, False], ids=["strict", "weighted"])
@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_happens_every_request_gets_one_outcome_and_no_limit_is_broken(
    policy: str, strict: bool
) -> None:
    machine = type("Machine", (AnythingGoes,), {"policy": policy, "strict": strict})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=25,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
