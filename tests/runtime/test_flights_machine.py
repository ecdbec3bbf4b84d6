"""Whoever joins, leaves, expires or fails in whatever order: every asker has one answer, and its own.

Besides: at most one execution of the same thing at a time, none that nobody wants, and nothing is left behind.
"""

import asyncio
from collections import Counter
from contextlib import suppress

from flights_kit import Airport
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.errors import Overloaded
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.waiters import Waiter
from penstock.testing import MockAnswerStore, VirtualLoop
from penstock.types import Ask, Identity, Outcome, Reply

FAILURES = (
    ("BACKEND_FAILED", Outcome.FAILED),
    ("DEADLINE_EXCEEDED", Outcome.EXPIRED),
    ("SERVICE_OVERLOADED", Outcome.FAILED),
)
# The first two look alike: they differ only where a glance does not fall.
TEXTS = [b'"%b %d %b"' % (b"long" * 40, number, b"end" * 40) for number in range(2)] + [b'"short"']
TIERS, TIMES = st.integers(0, 2), st.sampled_from([None, 0.3, 1.0, 9.0])


def execution_of(request: Passenger) -> int:
    return id(request.flight or request)


class Client:
    """An asker that counts its answers, and knows what it asked when."""

    def __init__(self, text: bytes, who: str, version: str) -> None:
        self.text, self.who, self.version = text, who, version
        self.replies: list[Reply] = []
        self.waiter: Waiter

    def reply(self, reply: Reply) -> None:
        self.replies.append(reply)


class Traffic(RuleBasedStateMachine):
    @initialize(
        shared=st.booleans(),
        ttl=st.sampled_from([0.0, 2.0]),
        sees_dispatch=st.booleans(),
        stored=st.booleans(),
    )
    def open(self, shared: bool, ttl: float, sees_dispatch: bool, stored: bool) -> None:
        self.loop = VirtualLoop()
        self.version = 1
        self.clients: list[Client] = []
        self.live: list[Passenger] = []  # carriers under way
        self.loop.run_until_complete(self._open(shared, ttl, sees_dispatch, stored))

    async def _open(self, shared: bool, ttl: float, sees_dispatch: bool, stored: bool) -> None:
        self.store = MockAnswerStore(self.loop.time) if stored else None
        self.port = Airport(shared=shared, ttl=ttl, sees_dispatch=sees_dispatch, store=self.store)
        if self.port.elsewhere is not None:
            self.running = self.loop.create_task(self.port.elsewhere.run())
        await asyncio.sleep(0.001)

    def _pass(self, seconds: float = 0.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    # ---- what may happen ---------------------------------------------------------------------------------

    @rule(
        text=st.sampled_from(TEXTS),
        who=st.sampled_from(["acme", "beta"]),
        tier=TIERS,
        timeout=TIMES,
        task=st.booleans(),
    )
    def ask(self, text: bytes, who: str, tier: int, timeout: float | None, task: bool) -> None:
        self._ask(text, who, tier, timeout, task=task)

    @precondition(lambda self: any(not client.replies for client in self.clients))
    @rule(data=st.data(), tier=TIERS, timeout=TIMES)
    def ask_what_is_under_way(self, data: st.DataObject, tier: int, timeout: float | None) -> None:
        first = data.draw(st.sampled_from([client for client in self.clients if not client.replies]))
        self._ask(first.text, first.who, tier, timeout, task=False)

    def _ask(self, text: bytes, who: str, tier: int, timeout: float | None, *, task: bool) -> None:
        client = Client(text, who, self.port.sharing.version)
        asked = Ask(client.text, timeout=timeout, identity=Identity(who, str(tier), "key"))

        async def submit() -> None:
            if task:
                stored = await self.port.gateway.submit_task(asked)
                inner = stored.reply  # type: ignore[attr-defined]

                def reply(reply: Reply) -> None:
                    client.replies.append(reply)
                    inner(reply)

                if stored.answer is not None:
                    client.replies.append(stored.answer)
                else:
                    stored._waiter.asker = type("Both", (), {"reply": staticmethod(reply)})()  # type: ignore[attr-defined]
                client.waiter = stored._waiter  # type: ignore[attr-defined]
            else:
                client.waiter = self.port.gateway.submit(asked, client)

        with suppress(Overloaded):
            self.loop.run_until_complete(submit())
            self.clients.append(client)

    @precondition(lambda self: any(not client.replies for client in self.clients))
    @rule(data=st.data(), cancels=st.booleans())
    def leave(self, data: st.DataObject, cancels: bool) -> None:
        client = data.draw(st.sampled_from([client for client in self.clients if not client.replies]))
        (client.waiter.withdraw if cancels else client.waiter.left)()

    @precondition(lambda self: self.port.queued)
    @rule(data=st.data())
    def dispatch(self, data: st.DataObject) -> None:
        self.port.dispatch(data.draw(st.sampled_from(self.port.queued)))

    @precondition(lambda self: self._under_way())
    @rule(data=st.data())
    def succeed(self, data: st.DataObject) -> None:
        self._succeed(data.draw(st.sampled_from(self._under_way())))

    def _succeed(self, request: Passenger) -> None:
        self.live.append(request)
        self.port.succeed(request, b"%b v%d" % (request.input, self.version), f"v{self.version}")

    @precondition(lambda self: self._taken_back())
    @rule(data=st.data())
    def succeed_all_the_same(self, data: st.DataObject) -> None:
        self._succeed(data.draw(st.sampled_from(self._taken_back())))

    @precondition(lambda self: self._under_way())
    @rule(data=st.data(), how=st.sampled_from(FAILURES))
    def fail(self, data: st.DataObject, how: tuple[str, Outcome]) -> None:
        code, outcome = how
        possible = self.port.queued if code == "DEADLINE_EXCEEDED" else self._under_way()
        if possible:
            request = data.draw(st.sampled_from(possible))
            self.live.append(request)
            self.port.fail(request, code, outcome)

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.5]))
    def time_passes(self, seconds: float) -> None:
        self._pass(seconds)

    @rule(full=st.booleans())
    def the_queue_is_full_or_not(self, full: bool) -> None:
        self.port.refusal = Overloaded("full", retry_after=1.0) if full else None

    @rule()
    def a_new_version_is_installed(self) -> None:
        self.version += 1

    @precondition(lambda self: self.store is not None)
    @rule(down=st.booleans(), seconds=st.sampled_from([0.0, 0.02, 5.0]))
    def the_store_is_well_or_not(self, down: bool, seconds: float) -> None:
        assert self.store is not None
        self.store.down, self.store.seconds = down, seconds

    def _under_way(self) -> list[Passenger]:
        """Carriers that are queued or on a worker: neither ended nor taken back from the queue."""
        port = self.port
        ended = {id(request) for request in self.live}
        withdrawn = {id(request) for request in port.withdrawn}
        return [r for r in port.published if id(r) not in ended and id(r) not in withdrawn]

    def _taken_back(self) -> list[Passenger]:
        """Withdrawn, perhaps too late."""
        ended = {id(request) for request in self.live}
        return [request for request in self.port.withdrawn if id(request) not in ended]

    # ---- what must hold ----------------------------------------------------------------------------------

    @invariant()
    def everybody_has_at_most_one_answer_and_it_is_its_own(self) -> None:
        for client in getattr(self, "clients", ()):
            assert len(client.replies) <= 1
            for reply in client.replies:
                assert reply.request.tenant == client.who
                if reply.outcome is Outcome.SUCCESS:
                    assert reply.execution is not None
                    assert reply.output == b"%b %b" % (client.text, reply.execution.version.encode())
                    if reply.execution.cached:
                        assert int(reply.execution.version[1:]) >= int(client.version[1:])

    @invariant()
    def the_same_thing_is_executed_once_at_a_time(self) -> None:
        if not hasattr(self, "port") or not self.port.sharing.sees_dispatch:
            return
        now = Counter(self.port.sharing.place(request) for request in self._under_way())
        assert all(count == 1 for count in now.values())

    @invariant()
    def nothing_is_queued_that_nobody_wants(self) -> None:
        if hasattr(self, "port"):
            wanted = {execution_of(c.waiter.request) for c in self.clients if not c.waiter.settled}
            assert {execution_of(request) for request in self.port.queued} <= wanted

    def teardown(self) -> None:
        if not hasattr(self, "port"):
            return
        for request in self._under_way():
            self._succeed(request)
        self._pass(100.0)
        assert all(len(client.replies) == 1 for client in self.clients)
        assert self.port.empty
        assert self.port.limiter.taken == self.port.limiter.released
        if self.port.elsewhere is not None:
            self.running.cancel()
            self.loop.run_until_complete(asyncio.wait([self.running]))
        self.port.wheel.close()
        self.loop.close()


Traffic.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_traffic = Traffic.TestCase
