"""What the data plane asks for: who asks, their requests, and their tasks. The doors call `Doorman`, which `auth`
implements, and `Gateway`, which `runtime/gateway.py` implements. The gateway calls `Tasks` (`runtime/tasks.py`,
`cluster/tasks.py`), and hands each `Reservation` to the store that records it."""

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from penstock.errors import PenstockError
from penstock.jobs import Slack
from penstock.ports.waiting import Asker, CallAsker, Leaving, Waiting
from penstock.types import Accepted, Ask, Failure, Identity, Reply, TaskStatus


class Doorman(Protocol):
    """Finds out who asks."""

    def recall(self, authorization: bytes) -> Identity | None:
        """Who asks, by an Authorization header of the form `Bearer …` alone, if that was found out before and is
        still true. None: `identify` finds out."""
        ...

    def identify(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Says at once who asks. Raises Unauthorized or Forbidden; StoreDown while tokens cannot be checked;
        KeysWanted if `identify_slowly` may know more."""
        ...

    async def identify_slowly(self, headers: Mapping[bytes, bytes]) -> Identity:
        """Says who asks, as `identify`, but asks the identity provider for new keys first, if that may help."""
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
        be called."""
        ...

    def admit(self) -> None:
        """Let the request in. Raises Refused if there is no room for it now."""
        ...

    def enter(self, asker: Asker) -> Waiting:
        """Let the request in and send it on its way. Raises Refused."""
        ...

    def wait(self, asker: Asker) -> Waiting:
        """Wait for the outcome without sending the request. Whoever knows the outcome calls `answer`; otherwise the
        deadline passes."""
        ...

    def answer(self, reply: Reply) -> None:
        """Give its asker this reply."""
        ...

    def over(self, code: str) -> None:
        """Note that the request has ended somewhere else. `code`: the code of its failure; empty if it succeeded.
        Called once."""
        ...

    def commit(self) -> None:
        """Note that the request is on its way, and counts."""
        ...

    def roll_back(self) -> None:
        """Note that the request was refused, and does not count."""
        ...

    def backlog_seconds(self) -> float:
        """How long the requests that wait now will take, for `Retry-After`."""
        ...


class Task(Protocol):
    """An accepted request whose answer is fetched later."""

    @property
    def id(self) -> str: ...

    @property
    def status(self) -> TaskStatus: ...

    @property
    def answer(self) -> Reply | None:
        """How the task ended; None: it is not over, as far as is known."""
        ...

    @property
    def changed_at(self) -> float:
        """When the task last changed, in seconds since the epoch."""
        ...

    async def wait(self, seconds: float) -> None:
        """Wait until the task is over, but not longer than this."""
        ...

    async def cancel(self) -> None:
        """End the task now, if it is not over."""
        ...


class Tasks(Protocol):
    """Where tasks (asynchronous requests) and their results are kept."""

    async def accept(self, reserved: Reservation) -> Task:
        """Record a task, send it on its way and commit the reservation. If that fails, roll the reservation back
        and raise Refused. Cancelling the caller does not leave half of it done."""
        ...

    async def find(self, task_id: str, tenant: str) -> Task:
        """The task of this tenant. Raises NotFound for a task that is not this tenant's."""
        ...


class Gateway(Protocol):
    """What the doors ask for. Every method that can refuse raises `errors.Refused`."""

    @property
    def models(self) -> Mapping[str, str]:
        """The kind of input that each model takes, text or json, by the model's name."""
        ...

    @property
    def kinds(self) -> Mapping[str | None, str]:
        """Like `models`, and under None the kind of the model for requests that name none. It changes as models
        come and go."""
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

    def slack(self, model: str | None) -> Slack:
        """How busy the workers of the model are; raises NotFound for a model nobody knows."""
        ...

    def takes_bytes(self, model: str | None) -> bool:
        """Whether an input of the model may be bytes; raises NotFound for a model nobody knows."""
        ...

    @property
    def taking_bytes(self) -> Set[str]:
        """The models that take bytes."""
        ...

    def submit(self, ask: Ask, asker: Asker) -> Waiting:
        """Let in one ask. Its asker is given the reply."""
        ...

    def submit_all(self, asks: Sequence[Ask], asker: CallAsker) -> Leaving:
        """Let in all asks of one call, or none: a refusal leaves nothing behind."""
        ...

    async def submit_task(self, ask: Ask) -> Task:
        """Let in one ask as a task."""
        ...

    def submit_keyed(self, ask: Ask, key: str, asker: Asker) -> Leaving:
        """Submit an ask with an Idempotency-Key: it is executed once, however often it is asked."""
        ...

    async def submit_keyed_task(self, ask: Ask, key: str) -> tuple[Task, bool]:
        """The task of an ask with an Idempotency-Key, and whether it had been asked for before."""
        ...

    async def find_task(self, task_id: str, client_id: str | None, identity: Identity | None = None) -> Task:
        """The task with this id of the tenant that asks. Raises NotFound."""
        ...

    def check_quota(self, identity: Identity) -> None:
        """Raise OverQuota if the next request of this tenant would be beyond its quota. This counts nothing."""
        ...

    def charge(self, identity: Identity) -> None:
        """Count a request of this tenant that was read and refused. Raises OverQuota."""
        ...

    def count(self, error: PenstockError, failure: Failure, request_id: str, door: str) -> None:
        """Tell the observers of a request that was refused on arrival. `failure`: what its asker is told. `error`:
        why; it knows whose request it was, or what is not known of it is empty. `door`: the name of the door that
        it came to; empty if there is none."""
        ...

    def clock(self) -> float: ...
