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
        """The time in monotonic seconds."""
        ...


class Broker(Protocol[Carried]):
    """Carries accepted requests from a gateway to the batcher."""

    def publish(self, request: Carried) -> None: ...

    def withdraw(self, request: Carried) -> None:
        """Withdraw a request: its asker has left or cancelled, so it need not go to a worker if it has not yet."""
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
        """How full the backend is, as `Result.pressure`. Raises BackendError if it is not healthy. Called while
        no batch is running."""
        ...

    async def close(self) -> None:
        """Let go of everything, at once if need be. Never raises; may be called twice."""
        ...


class _Watcher:
    def start(self) -> None:
        """Called when the server begins."""

    async def close(self) -> None:
        """Called after the last request: what is kept is written down now."""


class RequestObserver(_Watcher):
    """Is told what becomes of requests. Its calls stand between two requests: they must be cheap, must not wait and
    must not fail. A method does nothing unless it is overridden.

    When each thing happened stands in the stamps (`penstock.moments`): nobody is told of each moment as it
    passes.
    """

    def refused(self, refusal: Refusal) -> None:
        """A request was never accepted. Whoever refused it calls this: the gateway or the batcher."""

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        """These accepted requests have their answers, or ended without one; each is told of once. The gateway
        calls this."""

    def given_up(self, replies: Sequence[GivenUp], now: float) -> None:
        """These requests were executed and failed for good. The batcher calls this, before they are answered."""


class BatchObserver(_Watcher):
    """Is told what becomes of batches. Its calls must be as cheap as those of `RequestObserver`."""

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        """The batch was handed to a worker. The batcher calls this, and a worker in a process of its own as the
        batch begins."""

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        """The worker is done with the batch, or has given up. Called by whoever called `sent`. `failure` is None
        if there are outputs."""


class Observer(RequestObserver, BatchObserver):
    """Is told what becomes of requests and of batches."""


class Expiring(Protocol):
    """Something with a time limit."""

    @property
    def when(self) -> float: ...

    @property
    def settled(self) -> bool:
        """Whether its time limit no longer matters."""
        ...

    def expire(self) -> None:
        """Called once when its time is over, and only if it is not settled."""
        ...


class Leaving(Protocol):
    """Something that has no point any more once its client has gone."""

    def left(self) -> None: ...


class Waiting(Leaving, Protocol):
    """An accepted request on its way."""

    def is_queued(self) -> bool:
        """Whether the request that will answer it has not gone to a worker yet."""
        ...

    def withdraw(self) -> None:
        """Withdraw it: its asker wants it no more."""
        ...


class Asker(Protocol):
    """Whoever waits for the answer. A callback and not a future: thousands wait, and none needs a task for it."""

    def reply(self, reply: Reply) -> None:
        """Take the one answer; called once."""
        ...


class CallAsker(Protocol):
    """Whoever waits for the answers to several asks, which were let in together."""

    def answered(self, replies: Sequence[Reply]) -> None:
        """Called once: with all replies in the order of the asks, or with the first failure alone."""
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
        """When the task last changed, in seconds since the epoch."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until the task is over, but not longer than this."""
        ...

    async def cancel(self) -> None: ...


class Doorman(Protocol):
    """Finds out who asks."""

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        """At once. Raises Unauthorized or Forbidden; StoreDown while tokens cannot be checked; KeysWanted where
        `identify_slowly` may know more."""
        ...

    async def identify_slowly(self, headers: Mapping[bytes, bytes]) -> Identity:
        """The same, after the identity provider was asked where that may help."""
        ...


class Reservation(Protocol):
    """A request that was understood and counted, and of which nothing is started yet."""

    @property
    def request(self) -> Accepted: ...

    @property
    def waiting(self) -> bool:
        """Whether its asker still waits for its answer."""
        ...

    @property
    def in_flight(self) -> bool:
        """Whether its tenant's quota counts it until it is over. If so, and nobody waits for it here, `over` must
        be told."""
        ...

    def admit(self) -> None:
        """Let it in. Raises Refused if there is no room for it now."""
        ...

    def enter(self, asker: Asker) -> Waiting:
        """Let it in and send it on its way. Raises Refused."""
        ...

    def wait(self, asker: Asker) -> Waiting:
        """Send nothing: whoever knows the outcome tells it by `answer`, or its deadline passes."""
        ...

    def answer(self, reply: Reply) -> None: ...

    def over(self, code: str) -> None:
        """Note that it has ended somewhere else, with this failure or well. Told once."""
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
        """The task of this tenant. Raises NotFound for a task that is not this tenant's."""
        ...


class AnswerStore(Protocol):
    """Where the gateways of an installation keep answers for each other. Raises StoreDown."""

    async def fetch(self, fingerprints: Sequence[bytes]) -> Sequence[bytes | None]:
        """The answer that is kept under each fingerprint; None where there is none."""
        ...

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        """Keep answers: each a fingerprint, a value, and for how many seconds."""
        ...


class Gateway(Protocol):
    """What the data plane asks for. Every method that can refuse raises `errors.Refused`."""

    @property
    def models(self) -> Mapping[str, str]:
        """The kind of input that each model takes, text or json, by the model's name."""
        ...

    @property
    def kinds(self) -> Mapping[str | None, str]:
        """Like `models`, and under None the kind of the model that requests mean which name none. It changes as
        models come and go."""
        ...

    @property
    def asynchronous(self) -> Set[str | None]:
        """Models whose requests become tasks unless their client asks otherwise; with None as in `kinds`."""
        ...

    def describe_models(self) -> Sequence[Mapping[str, object]]:
        """What a client may know of each model."""
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
        """Let in all asks of one call, or none: a refusal leaves nothing behind."""
        ...

    async def submit_task(self, ask: Ask) -> Task: ...

    def submit_keyed(self, ask: Ask, key: str, asker: Asker) -> Leaving:
        """Submit an ask with an Idempotency-Key: it is executed once, however often it is asked."""
        ...

    async def submit_keyed_task(self, ask: Ask, key: str) -> tuple[Task, bool]:
        """The task of an ask with an Idempotency-Key, and whether it had been asked for before."""
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
        """Count a request that was refused on arrival with this error code; what is not known of it is empty."""
        ...

    def clock(self) -> float: ...
