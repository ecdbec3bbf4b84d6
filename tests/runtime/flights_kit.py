"""A gateway with one deterministic model, whose requests go nowhere until the test says what becomes of them."""

import asyncio
from itertools import count

from runtime_kit import Observed

from penstock.adapters.memory import MemoryBroker
from penstock.core.remembered_answers import RememberedAnswers
from penstock.errors import OverQuota, Refused
from penstock.quota import Limits
from penstock.runtime.collapse.flight import AnswerMemory, Flight
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.collapse.sharing import Sharing
from penstock.runtime.desk import Desk
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.runtime.waiters import Waiter
from penstock.runtime.wheel import Wheel
from penstock.testing import MockAnswerStore, Recorder
from penstock.types import Ask, Execution, Failure, Identity, Outcome, Reply, Request, WorkerId

LIMITS = Limits(requests_per_minute=1000)


class CountingLimiter:
    """A `Limiter` that lets everybody in and keeps the books; all have one account."""

    limit = 1000
    reset_at = 60.0

    def __init__(self) -> None:
        self.taken = self.released = self.given_back = 0
        self.remaining = self.limit

    def account(self, tenant: str, limits: Limits) -> "CountingLimiter":
        return self

    def take(self, now: float) -> OverQuota | None:
        self.taken += 1
        self.remaining -= 1
        return None

    def release(self, now: float, *, refused: bool = False) -> None:
        self.released += 1
        self.given_back += refused


class Asked(Recorder):
    """One asker, and what it holds while it waits."""

    waiter: Waiter


class Airport:
    def __init__(
        self,
        *,
        shared: bool = False,
        ttl: float = 0.0,
        sees_dispatch: bool = True,
        store: MockAnswerStore | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.loop = loop
        self.sharing = Sharing("model", "v1", shared=shared, ttl=ttl, sees_dispatch=sees_dispatch)
        self.published: list[Passenger] = []
        self.withdrawn: list[Passenger] = []
        self.refusal: Refused | None = None
        self.refusals: list[Refused | None] = []  # of those that come next, before that
        self.observed = Observed()
        self.limiter = CountingLimiter()
        self.memory: AnswerMemory = RememberedAnswers(100, 1 << 20)
        self.wheel = Wheel(loop, loop.time)
        self.tasks = TaskStore(self.wheel, loop.time, loop.time, max_tasks=10, max_bytes=1_000_000, ttl=60.0)
        broker = MemoryBroker[Passenger]()
        broker.subscribe(self._publish, self._withdraw)
        desk = Desk(
            model="model", kind="text", broker=broker, admit=self._admit,
            backlog_seconds=lambda: 7.0, cost=None, takes_parameters=lambda: True,
            time_limits=[(2.0, 4.0)] * 3, longest_limit=60.0, sharing=self.sharing,
        )  # fmt: skip
        self.elsewhere = None if store is None else SharedAnswers[Flight](
            store, loop.time, max_entries=1000, max_bytes=1 << 20, has_room=lambda: True
        )  # fmt: skip
        self.gateway = Gateway(
            {"model": desk}, _who, self.tasks, self.wheel, self.observed, loop.time, map("id-{}".format, count(1)),
            self.limiter, [LIMITS] * 3, memory=self.memory, elsewhere=self.elsewhere,
        )  # fmt: skip

    def _admit(self, request: Request, now: float) -> Refused | None:
        return self.refusals.pop(0) if self.refusals else self.refusal

    def _publish(self, request: Passenger) -> None:
        request.waiting = True
        self.published.append(request)

    def _withdraw(self, request: Passenger) -> None:
        request.waiting = False
        self.withdrawn.append(request)

    def ask(
        self,
        text: bytes = b'"x"',
        who: str = "",
        *,
        tier: int = 1,
        timeout: float | None = None,
        parameters: bytes = b"",
        request_id: str | None = None,
    ) -> Asked:
        asked = Asked()
        asked.waiter = self.gateway.submit(
            Ask(text, parameters=parameters, timeout=timeout, request_id=request_id,
                identity=Identity(who, str(tier), "key")), asked
        )  # fmt: skip
        return asked

    @property
    def queued(self) -> list[Passenger]:
        """Sent, not on a worker, not withdrawn."""
        return [request for request in self.published if request.waiting]

    def dispatch(self, request: Passenger) -> None:
        request.waiting = False

    def succeed(
        self, request: Passenger, output: bytes = b"1", version: str = "v1", seconds: float = 0.0
    ) -> None:
        request.waiting = False
        now = self.loop.time()
        execution = Execution(WorkerId("w"), 1, 1, now - seconds, seconds, version)
        self.gateway.settle([Reply(request, Outcome.SUCCESS, output, None, execution)])

    def fail(
        self, request: Passenger, code: str = "BACKEND_FAILED", outcome: Outcome = Outcome.FAILED
    ) -> None:
        request.waiting = False
        self.gateway.settle([Reply(request, outcome, failure=Failure(code, "it was told to"))])

    @property
    def empty(self) -> bool:
        """Nobody waits, and nothing but answers is left in the memory."""
        places = self.memory.places
        under_way = [each for _, each in places.taken.items() if not isinstance(each, tuple)]
        return not (len(self.gateway.waiters) or under_way or self.gateway.flights._adrift)


def _who(client_id: str | None, identity: Identity | None) -> tuple[str, int]:
    return ("", 1) if identity is None else (identity.tenant, int(identity.tier))


def code(asked: Recorder) -> str:
    """Of its failure; empty where it succeeded."""
    failure = asked.answer.result().failure
    return "" if failure is None else failure.code
