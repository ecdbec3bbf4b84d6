"""Two batchers, one pool of workers, and credits between them; anything may happen, in any order."""

from collections import Counter, deque

import pytest
from core_kit import AWAY, REFUSED, TIMED_OUT, ask, held
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock.core.batcher import Batcher
from penstock.core.policy import POLICIES
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.core.tier import SLACK
from penstock.types import Failure, Outcome, Result, WorkerId

WORKERS = [WorkerId(name) for name in ("a", "b", "c")]
MILLISECONDS = st.sampled_from([0, 1, 5, 50, 51, 101, 400, 2100]).map(lambda ms: ms / 1000)
OUTCOMES = {"refused": REFUSED, "away": AWAY, "timed out": TIMED_OUT}
WHICH = st.integers(0, 10_000)

Word = tuple[int, WorkerId, int, Result | Failure]  # to which batcher, from whom, on which batch


class SharedPool(RuleBasedStateMachine):
    policy = "paced"

    @initialize(
        workers=st.integers(1, 3), max_batch=st.sampled_from([1, 4]), reserve=st.sampled_from([0, 0, 1]),
        ahead=st.booleans(),
    )  # fmt: skip
    def begin(self, workers: int, max_batch: int, reserve: int, ahead: bool) -> None:
        rules = BatchingRules(
            policy=self.policy, max_batch=max_batch, reserve=reserve, shared=True, max_lanes=3,
            breaker_failures=3, breaker_cooldown=0.5, ahead=ahead,
        )  # fmt: skip
        self.ahead = ahead
        self.batchers = [Batcher(rules), Batcher(rules)]
        self.wakes: list[float | None] = [None, None]
        self.hungry: list[int] = []  # batchers that have asked for a credit and not got one
        self.credits: list[WorkerId] = []  # for anybody to take
        self.running: dict[WorkerId, tuple[int, Sealed]] = {}
        self.behind: dict[WorkerId, deque[tuple[int, Sealed]]] = {name: deque() for name in WORKERS}
        self.words: list[Word] = []  # on their way to a batcher
        self.alive: set[WorkerId] = set()
        self.accepted: list[tuple[int, Queued]] = []
        self.outcomes: Counter[str] = Counter()
        self.now = 100.0
        for batcher in self.batchers:
            batcher.share = 0.5
        for worker in WORKERS[:workers]:
            self.appear(worker)

    # ---- what may happen -----------------------------------------------------------------------------------

    @rule(
        to=st.integers(0, 1), size=st.integers(1, 9), lanes=st.integers(1, 2),
        patience=st.sampled_from([0.03, 0.2, 2.0, 60.0]), soon=st.booleans(),
    )  # fmt: skip
    def arrive(self, to: int, size: int, lanes: int, patience: float, soon: bool) -> None:
        for number in range(size):
            parameters = b"%d" % (number % lanes)
            request = ask(self.now, expires=patience, deadline=patience, parameters=parameters)
            self.accepted.append((to, request))
            self.batchers[to].offer(request, self.now)
        self.step(to)
        while soon and self.hungry and self.credits:
            self.a_credit_is_taken()

    @rule(which=WHICH)
    def leave(self, which: int) -> None:
        undecided = [(at, request) for at, request in self.accepted if not self.outcomes[request.key]]
        if undecided:
            at, request = undecided[which % len(undecided)]
            if self.batchers[at].withdraw(request):
                self.outcomes[request.key] += 1
            self.step(at)

    @precondition(lambda self: self.hungry and self.credits)
    @rule()
    def a_credit_is_taken(self) -> None:
        worker, to = self.credits.pop(0), self.hungry[0]
        self.hungry.pop(0)
        self.batchers[to].worker_ready(worker)
        self.step(to)

    @rule(of=st.integers(0, 1), all_of_them=st.booleans())
    def credits_are_given_back(self, of: int, all_of_them: bool) -> None:
        """Those held for nothing; all of them when it loses its shards."""
        batcher = self.batchers[of]
        for worker in batcher.fleet.kept(resting=False) if all_of_them else batcher.spare(self.now):
            self.batchers[of].worker_lent(worker)
            self.credits.append(worker)
        self.step(of)

    @precondition(lambda self: self.running)
    @rule(
        which=WHICH, seconds=MILLISECONDS,
        how=st.sampled_from(["well", "well", "well", "short", "refused", "away", "timed out"]),
    )  # fmt: skip
    def a_worker_is_done(self, which: int, seconds: float, how: str) -> None:
        """Its word is on the way, and may be overtaken by its credit."""
        self.let_pass(seconds)
        worker = list(self.running)[which % len(self.running)]
        to, batch = self.running.pop(worker)
        size = batch.size if how == "well" else batch.size + 1
        self.words.append((to, worker, batch.id, OUTCOMES.get(how) or Result(delivered=size)))
        if self.behind[worker]:
            self.running[worker] = self.behind[worker].popleft()
        else:
            self.credits.append(worker)

    @precondition(lambda self: self.words)
    @rule(which=WHICH)
    def a_word_arrives(self, which: int) -> None:
        teller = self.words[which % len(self.words)][1]  # tells of its batches in their order
        first = next(index for index, word in enumerate(self.words) if word[1] == teller)
        to, worker, batch_id, outcome = self.words.pop(first)
        self.batchers[to].finished(worker, batch_id, outcome, self.now)
        self.step(to)

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def a_word_from_an_earlier_life_arrives(self, which: int) -> None:
        worker = list(self.running)[which % len(self.running)]
        to, batch = self.running[worker]
        self.batchers[to].finished(worker, batch.id - 1, Result(delivered=batch.size), self.now)
        self.step(to)

    @rule(worker=st.sampled_from(WORKERS))
    def appear(self, worker: WorkerId) -> None:
        """Told to the batchers with every heartbeat; a new one posts its credit."""
        if worker not in self.alive:
            self.alive.add(worker)
            self.credits.append(worker)
        for to, batcher in enumerate(self.batchers):
            batcher.worker_known(worker)
            self.step(to)

    @rule(worker=st.sampled_from(WORKERS), for_good=st.booleans())
    def vanish(self, worker: WorkerId, for_good: bool) -> None:
        """What it had in hand and its credit go with it; its last words may still be on their way."""
        self.alive.discard(worker)
        self.running.pop(worker, None)
        self.behind[worker].clear()
        self.credits = [credit for credit in self.credits if credit != worker]
        for to, batcher in enumerate(self.batchers):
            if for_good:
                batcher.worker_removed(worker, self.now)
            else:
                batcher.worker_gone(worker, self.now)
            self.step(to)

    @rule(worker=st.sampled_from(WORKERS))
    def fall_silent(self, worker: WorkerId) -> None:
        """It goes on with what it has. Who held its credit no longer does; if it is free it says so again."""
        for to, batcher in enumerate(self.batchers):
            batcher.worker_doubted(worker)
            self.step(to)
        if worker in self.alive and worker not in (*self.running, *self.credits):
            self.credits.append(worker)

    @rule(share=st.sampled_from([0.0, 0.25, 0.5, 1.0]))
    def shards_move(self, share: float) -> None:
        self.batchers[0].share, self.batchers[1].share = share, 1.0 - share

    @rule(seconds=MILLISECONDS)
    def let_pass(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := min((wake for wake in self.wakes if wake is not None), default=until + 1)) <= until:
            self.now = due
            self.step(self.wakes.index(due))
        self.now = until

    def teardown(self) -> None:
        """The end: no more arrivals, workers that work. Everybody gets an answer, and nothing is left."""
        if not hasattr(self, "batchers"):
            return
        for batcher in self.batchers:
            batcher.drain()
        for _ in range(20 * len(self.accepted) + 100):
            if self.words:
                self.a_word_arrives(0)
            elif self.running:
                self.a_worker_is_done(0, 0.0, "well")
            elif self.hungry and self.credits:
                self.a_credit_is_taken()
            elif any(batcher.waiting for batcher in self.batchers):
                self.let_pass(min(wake for wake in self.wakes if wake is not None) - self.now)
                self.credits_are_given_back(0, all_of_them=False)
                self.credits_are_given_back(1, all_of_them=False)
        assert all(self.outcomes[request.key] == 1 for _, request in self.accepted)
        assert all(batcher.waiting == batcher.depth.bytes == 0 for batcher in self.batchers)

    # ---- what the servers would do, and what must hold after each of their turns ----------------------------

    def step(self, which: int) -> None:
        batcher, now = self.batchers[which], self.now
        effects = batcher.step(now)
        for reply in effects.replies:
            self.outcomes[reply.request.key] += 1
            assert self.outcomes[reply.request.key] == 1, "a second outcome"
            assert (reply.failure is None) is (reply.outcome is Outcome.SUCCESS)
            assert reply.output == b"", "the worker has delivered it"
        for worker, batch in effects.dispatches:
            if batch.ahead:
                continue  # the worker has had it since it was handed over
            assert worker in self.alive
            if not self.ahead:
                assert worker not in self.running, "two batches on one worker"
                assert worker not in self.credits
            self.arrives(worker, which, batch)
        for worker, batch in effects.ahead:
            assert self.ahead
            assert worker in self.alive
            assert all(at != which for at, _ in self.behind[worker]), "two batches ahead"
            if self.credits.count(worker):  # it comes too late
                self.credits.remove(worker)
            self.arrives(worker, which, batch)
        if batcher.wants_worker(now) and which not in self.hungry:
            self.hungry.append(which)
        self.wakes[which] = effects.wake
        self.check(which)

    def arrives(self, worker: WorkerId, which: int, batch: Sealed) -> None:
        if worker in self.running:
            self.behind[worker].append((which, batch))
        else:
            self.running[worker] = which, batch

    def check(self, which: int) -> None:
        batcher, wake = self.batchers[which], self.wakes[which]
        assert wake is None or wake > self.now, "woken again at the same instant, for ever"
        if batcher.waiting:
            assert wake is not None, "a lost wake-up"
        if batcher.depth.total and not batcher.fleet.idle:
            assert which in self.hungry, "something waits, and nobody takes a credit for it"
        undecided = sum(1 for at, request in self.accepted if at == which and not self.outcomes[request.key])
        assert undecided == batcher.waiting + sum(
            batch.size
            for worker in batcher.fleet.workers.values()
            for batch in (worker.batch, worker.ahead)
            if batch is not None
        )
        for name, (at, batch) in self.running.items():
            holder = batcher.fleet.workers[name]
            if at == which:
                assert batch in (holder.batch, holder.ahead), "decided while it still runs"
        hands = [*self.batchers[0].fleet.idlers, *self.batchers[1].fleet.idlers, *self.credits]
        # What is handed ahead may come too late: the worker is in the line by then, and another may have it.
        assert self.ahead or len(hands) == len(set(hands)), "one credit in two hands"
        assert len(batcher.fleet.workers) <= len(WORKERS)
        assert batcher.fleet.healthy <= len(self.alive)
        for lane in batcher.lanes.values():
            assert held(lane.buffer) <= 4 * lane.buffer.waiting + SLACK


@pytest.mark.parametrize("policy", POLICIES)
def test_whatever_happens_batchers_that_share_workers_answer_each_request_once(policy: str) -> None:
    run_state_machine_as_test(
        type("Machine", (SharedPool,), {"policy": policy}),
        settings=settings(
            max_examples=40,
            stateful_step_count=50,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],  # an example is readable as it is, and shrinking one takes minutes
            suppress_health_check=list(HealthCheck),
        ),
    )
