"""A door: one way of asking, with its own bodies, answers and errors.

    bytes ──read──► asks ──► the gateway ──► replies ──answer──► status, fields, body
              │ raises           │ refuses, or one of them fails
              └──────────────────┴───────────failure───────────► the same, in this door's shape of an error

A door is one file in this folder and one name in `DOORS` (`open_doors`). It knows nothing of connections. Who asks,
quotas, deadlines, idempotency keys, large bodies and clients that leave are seen to by whoever opens it
(`data_plane`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

from penstock.doors.every_answer import failed
from penstock.doors.openapi_parts import Described, Offer, Part, refused
from penstock.doors.steps import Steps
from penstock.doors.wishes import Media
from penstock.edge.answer import Answer
from penstock.edge.caller import Render
from penstock.edge.fields import Headers
from penstock.errors import TooLarge
from penstock.ports import Gateway
from penstock.types import Ask, Failure, Identity, Reply


@dataclass(frozen=True, slots=True)
class HttpLimits:
    max_body: int = 2**20
    max_depth: int = 64
    control_characters: str = "refuse"
    max_long_poll: float = 30.0
    count_refused: bool = True
    max_asks: int = 1024


@dataclass(frozen=True, slots=True)
class Inside:
    """What is behind every door."""

    gateway: Gateway
    limits: HttpLimits = HttpLimits()
    secured: bool = False  # whether clients must say who they are
    not_ready: Callable[[], str] = lambda: ""  # why no traffic should come; empty when it should

    def check_number(self, asks: int) -> None:
        """Refuse a call with too many asks."""
        if asks > self.limits.max_asks:
            raise TooLarge(f"the request holds {asks} inputs, and limits.max_asks is {self.limits.max_asks}")


class Door(ABC):
    # The path; a last part in braces, as in /v1/result/{task_id}, stands for any one name.
    path: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    # Whether the door is open to anybody, also where clients must say who they are.
    public: ClassVar[bool] = False

    def __init__(self, inside: Inside) -> None:
        self.inside = inside

    def failure(self, failure: Failure, request_id: str) -> Answer:
        """The answer to a request that failed or was refused. A door without a shape of its own has the native
        one."""
        return failed(failure, request_id)

    def describe(self, offer: Offer) -> Described:
        """The door's part of the document at /openapi.json."""
        return Described()

    def describe_errors(self, *statuses: int) -> Part:
        """The responses with these statuses, for `describe`."""
        return refused(*statuses)


class Tasks(Enum):
    """When a request becomes a task, whose answer is fetched later."""

    NEVER = "never"
    IF_ASKED = "the client says `Prefer: respond-async`"
    AS_MODEL = "the client says so, or says nothing and the model's setting does"


class AskingDoor(Door):
    """Takes a body in JSON and asks the gateway for what it says."""

    methods: ClassVar[tuple[str, ...]] = ("POST",)
    tasks: ClassVar[Tasks] = Tasks.NEVER
    others: ClassVar[bool] = False  # whether bodies are read that are not JSON

    @abstractmethod
    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        """What is asked, in order. Raises `errors.Refused`. A body may be large: what takes long is a step, and
        others have their turn at each `yield` (`steps`)."""

    def read_one(self, body: bytes) -> Ask | None:
        """A shorter way for a small body with one ask, whose head says nothing of it. None: `read` has to read
        it."""
        return None

    def read_other(self, media: Media, body: bytes, query: str) -> Steps[Sequence[Ask]]:
        """As `read`, of a body that is not JSON: only where `others` are read."""
        raise NotImplementedError

    def rendering(self, wanted: Media) -> Render:
        """What makes the answer to the only ask, in the form that its client wants, if it is known here."""
        return self.render

    @abstractmethod
    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        """The answer to replies that all have an output, in the order of the asks."""

    def render(self, reply: Reply, now: float) -> Answer:
        """The answer to the reply of the only ask, be it an output or a failure."""
        if reply.failure is not None:
            return self.failure(reply.failure, reply.request.request_id)
        return self.answer((reply,), now)


class Visit(NamedTuple):
    """A request to a door that tells something."""

    method: str
    path: str
    query: str
    identity: Identity | None  # None: nobody is asked who they are

    @property
    def tenant(self) -> str:
        return "" if self.identity is None else self.identity.tenant


Respond = Callable[[Answer], None]


class TellingDoor(Door):
    """A door that tells of what is here already, and asks no model."""

    methods: ClassVar[tuple[str, ...]] = ("GET",)

    @abstractmethod
    async def tell(self, visit: Visit, respond: Respond) -> None:
        """Tell it: `respond` is called once. Raises `errors.Refused`."""
