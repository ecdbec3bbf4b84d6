"""The ports: what the runtime asks of the outside world. Each fits on one screen.

An adapter translates foreign errors into `penstock.errors` and knows nothing of its siblings.
"""

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Protocol, TypeVar

from penstock.types import (
    Accepted,
    Ask,
    Batch,
    Execution,
    Failure,
    GivenUp,
    Identity,
    Refusal,
    Reply,
    Result,
    TaskStatus,
    WorkerId,
)

Carried = TypeVar("Carried", bound=Accepted, contravariant=True)


class Clock(Protocol):
    def __call__(self) -> float:
        """Monotonic seconds."""
        ...


class Broker(Protocol[Carried]):
    """Carries accepted requests from a gateway to the batcher."""

    def publish(self, request: Carried) -> None: ...

    def withdraw(self, request: Carried) -> None:
        """The asker has left, or cancelled: what has not gone to a worker need not go."""
        ...


class ResultBus(Protocol):
    """Carries replies from the batcher back to the gateway that holds the connection."""

    def deliver(self, replies: Sequence[Reply]) -> None: ...

    def subscribe(self, on_replies: Callable[[Sequence[Reply]], None]) -> None: ...


class Backend(Protocol):
    """The fixed thing: takes one batch at a time and gives one output for each input.

    `run` raises a `BackendError`; after one whose class says `fatal` the owner calls `close`,
    waits its back-off and calls `start` again. All methods are called from one event loop, and
    `run` may be cancelled: nothing of the cancelled batch may leak into the next.
    """

    async def start(self) -> None:
        """Get ready for `run`: spawn, connect, warm up. Raises BackendError if that fails."""
        ...

    async def run(self, batch: Batch) -> Result: ...

    async def probe(self) -> float:
        """How full it is, as `Result.pressure`. Raise BackendError if the backend is not healthy. Called while no
        batch is running."""
        ...

    async def close(self) -> None:
        """Let go of everything, at once if need be. Never raises; may be called twice."""
        ...


class _Watcher:
    def start(self) -> None:
        """The server begins."""

    async def close(self) -> None:
        """After the last request: what is kept is written down now."""


class RequestObserver(_Watcher):
    """Is told what becomes of requests. Its calls stand between two requests: they must be cheap, must not wait and
    must not fail. Each does nothing unless it is overridden.

    What came when stands in the stamps (`penstock.moments`): nobody is told of each moment as it passes.
    """

    def refused(self, refusal: Refusal) -> None:
        """One that was never accepted. By who refuses it: the gateway, or the batcher at its own door."""

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        """Those that were accepted, each once, when it has its answer or ended without one. By its gateway."""

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        """Those that were executed, and failed for good. By the batcher, before they are answered."""


class BatchObserver(_Watcher):
    """Is told what becomes of batches. The same holds for its calls."""

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        """It was handed to a worker. By the batcher; and by a worker in a process of its own, as it begins."""

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        """Its worker is done with it, or has given up. By the same. None: it has outputs."""


class Observer(RequestObserver, BatchObserver):
    """Is told of both."""


class Expiring(Protocol):
    """Something with a time limit."""

    @property
    def when(self) -> float: ...

    @property
    def settled(self) -> bool:
        """It no longer matters."""
        ...

    def expire(self) -> None:
        """Its time is over; called once, and only if it is not settled."""
        ...


class Leaving(Protocol):
    """Something that has no point any more once its client has gone."""

    def left(self) -> None: ...


class Waiting(Leaving, Protocol):
    """An accepted request on its way."""

    def is_queued(self) -> bool:
        """Whether what will answer it has not gone to a worker."""
        ...

    def withdraw(self) -> None:
        """Its asker wants it no more."""
        ...


class Asker(Protocol):
    """Whoever waits for the answer. A callback and not a future: thousands wait, and none needs a task for it."""

    def reply(self, reply: Reply) -> None:
        """The one answer, called once."""
        ...


class CallAsker(Protocol):
    """Whoever waits for the answers to several asks, which were let in together."""

    def answered(self, replies: Sequence[Reply]) -> None:
        """Called once: with all of them, in the order of the asks; or with the first failure alone."""
        ...


class Task(Protocol):
    """An accepted request whose answer is fetched later."""

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> TaskStatus: ...

    @property
    def answer(self) -> Reply | None: ...

    @property
    def changed_at(self) -> float:
        """Seconds since the epoch."""
        ...

    async def wait(self, seconds: float) -> None:
        """Until it is over, but not longer than this."""
        ...

    async def cancel(self) -> None: ...


class Doorman(Protocol):
    """Finds out who asks."""

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        """At once. Raises Unauthorized or Forbidden; KeysWanted where `identify_slowly` may know more."""
        ...

    async def identify_slowly(self, headers: Mapping[bytes, bytes]) -> Identity: ...


class Reservation(Protocol):
    """A request that was understood and counted, and of which nothing is started yet."""

    @property
    def request(self) -> Accepted: ...

    @property
    def waiting(self) -> bool:
        """Its asker still waits for its answer."""
        ...

    @property
    def in_flight(self) -> bool:
        """Its tenant's quota counts it until it is over: `over` is to be told, where nobody waits for it here."""
        ...

    def admit(self) -> None:
        """Raises Refused if there is no room for it now."""
        ...

    def enter(self, asker: Asker) -> Waiting:
        """Admit it and send it on its way. Raises Refused."""
        ...

    def wait(self, asker: Asker) -> Waiting:
        """Send nothing: whoever knows the outcome tells it by `answer`, or its deadline passes."""
        ...

    def answer(self, reply: Reply) -> None: ...

    def over(self, code: str) -> None:
        """It has ended somewhere else: with this failure, or well. Told once."""
        ...

    def commit(self) -> None:
        """It is on its way, and counts."""
        ...

    def roll_back(self) -> None:
        """It was refused, and does not count."""
        ...

    def backlog_seconds(self) -> float: ...


class Tasks(Protocol):
    """Where asynchronous requests and their results are kept."""

    async def accept(self, reserved: Reservation) -> Task:
        """Record it, send it on its way and commit it; or none of these: then it is rolled back. Raises Refused.
        Cancelling the caller does not leave half of it done."""
        ...

    async def find(self, task_id: str, tenant: str) -> Task:
        """Raises NotFound for what is not this tenant's."""
        ...


class AnswerStore(Protocol):
    """Where the gateways of an installation keep answers for each other. Raises StoreDown."""

    async def fetch(self, fingerprints: Sequence[bytes]) -> Sequence[bytes | None]:
        """What is kept under each."""
        ...

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Fingerprint, value, and for how many seconds."""
        ...


class Gateway(Protocol):
    """What the data plane asks for. Every method that can refuse raises `errors.Refused`."""

    @property
    def models(self) -> Mapping[str, str]:
        """Each model's name, and the kind of input it takes: text or json."""
        ...

    @property
    def kinds(self) -> Mapping[str | None, str]:
        """The same, and under None that of the model meant by who names none; it changes as models come and go."""
        ...

    @property
    def asynchronous(self) -> Set[str | None]:
        """Models whose requests become tasks unless their client asks otherwise; with None as in `kinds`."""
        ...

    def describe_models(self) -> Sequence[Mapping[str, object]]:
        """What a client may know of each."""
        ...

    @property
    def parameters(self) -> Mapping[str, Sequence[str] | None]:
        """The names of the parameters that each model takes: none if empty, any if None."""
        ...

    def kind_of(self, model: str | None) -> str:
        """The kind of input the model takes; raises NotFound for a model nobody knows."""
        ...

    def submit(self, ask: Ask, asker: Asker) -> Leaving: ...

    def submit_all(self, asks: Sequence[Ask], asker: CallAsker) -> Leaving:
        """All of them or none: a refusal leaves nothing behind."""
        ...

    async def submit_task(self, ask: Ask) -> Task: ...

    def submit_keyed(self, ask: Ask, key: str, asker: Asker) -> Leaving:
        """The same with an Idempotency-Key: executed once, however often it is asked."""
        ...

    async def submit_keyed_task(self, ask: Ask, key: str) -> tuple[Task, bool]:
        """The task, and whether it had been asked for before."""
        ...

    async def find_task(
        self, task_id: str, client_id: str | None, identity: Identity | None = None
    ) -> Task: ...

    def check_quota(self, identity: Identity) -> None:
        """Raises OverQuota if the next request of this tenant would be beyond its quota. Counts nothing."""
        ...

    def charge(self, identity: Identity) -> None:
        """A request of this tenant was read and refused: it counts for its minute. Raises OverQuota."""
        ...

    def count(self, model: str, code: str, request_id: str = "", tenant: str = "") -> None:
        """A request that ended at the door with this error code; what is not known of it is empty."""
        ...

    def clock(self) -> float: ...
