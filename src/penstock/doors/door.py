"""A door: one way of asking, with its own bodies, answers and errors.

    bytes ──read──► asks ──► the gateway ──► replies ──answer──► status, fields, body
              │ raises           │ refuses, or one of them fails
              └──────────────────┴───────────failure───────────► the same, in this door's shape of an error

A door is one file in this folder and one name in `DOORS` (`open_doors.py`). It is a subclass of `AskingDoor`,
`TellingDoor` or `TalkingDoor`, and knows nothing of connections. `data_plane.py` calls it, and takes care of
identities, quotas, idempotency keys, large bodies and clients that leave.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar, NamedTuple

from penstock.doors.every_answer import failed
from penstock.doors.large import LARGE
from penstock.doors.openapi_parts import Described, Offer, Part, refused
from penstock.doors.plain import is_plain
from penstock.doors.reception import Reception
from penstock.doors.steps import Steps
from penstock.doors.wishes import Media
from penstock.edge.answer import Answer
from penstock.edge.caller import Caller, Parts, Render
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.errors import TooLarge, Unacceptable
from penstock.ports import Gateway
from penstock.ports.jobs import Jobs
from penstock.ports.tracing import RequestTracer
from penstock.ports.webhooks import Webhooks
from penstock.types import Ask, Failure, Identity, Reply


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What a request may hold. `roles/data_plane.py` reads it from `[limits]` in the configuration."""

    max_body: int = 2**20  # bytes
    max_depth: int = 64  # levels of an input
    control_characters: str = "refuse"  # refuse, strip or allow
    max_long_poll: float = 30.0  # seconds
    count_refused: bool = True  # whether a refused request counts against its sender's quota
    max_asks: int = 1024  # of one call
    max_stream_asks: int = 1024  # in flight on one WebSocket


@dataclass(frozen=True, slots=True)
class Inside:
    """What is behind every door."""

    gateway: Gateway
    limits: HttpLimits = HttpLimits()
    secured: bool = False  # whether clients must say who they are
    not_ready: Callable[[], str] = lambda: ""  # why no traffic should come; empty when it should
    origins: Sequence[str] = ()  # of web pages from elsewhere that may ask
    webhooks: Webhooks | None = None  # tells addresses how tasks ended; None: no address is called
    jobs: Jobs | None = None  # keeps files and runs their lines; None: no files are taken
    tracer: RequestTracer | None = (
        None  # for asks that are no requests by themselves; None: nothing is traced
    )

    def check_number(self, asks: int) -> None:
        """Refuse a call with too many asks."""
        if asks > self.limits.max_asks:
            raise TooLarge(f"the request holds {asks} inputs, and limits.max_asks is {self.limits.max_asks}")


class Door(ABC):
    """What every door has."""

    # Under which the metrics count what comes to the door. Doors for the same clients have the same name.
    name: ClassVar[str]
    # The path; a part in braces, as in /v1/result/{task_id}, stands for any one name.
    path: ClassVar[str]
    methods: ClassVar[tuple[str, ...]]
    # Whether anybody may use the door, even if clients must say who they are.
    public: ClassVar[bool] = False
    most_body: int = 0  # bytes of a body, where it may have more than `limits.max_body`; otherwise 0

    def __init__(self, inside: Inside) -> None:
        self.inside = inside

    def failure(self, failure: Failure, request_id: str) -> Answer:
        """Returns the answer to a request that failed or was refused. A door without its own shape of an error uses
        the native one."""
        return failed(failure, request_id)

    def describe(self, offer: Offer) -> Described:
        """Returns the door's part of the document at /openapi.json."""
        return Described()

    def describe_errors(self, *statuses: int) -> Part:
        """Returns the responses with these statuses, for `describe`."""
        return refused(*statuses)


class BecomesTask(Enum):
    """When a request becomes a task, whose answer is fetched later."""

    NEVER = "never"
    IF_ASKED = "the client says `Prefer: respond-async`"
    AS_MODEL = "the client says so, or says nothing and the model's setting does"


class Letter(NamedTuple):
    """What came to a door that makes asks of it."""

    body: bytes
    headers: Headers
    media: Media = Media.JSON
    path: str = ""
    query: str = ""


class Call(list[Ask]):
    """The asks of a letter that also said what the answer is to look like."""

    def __init__(self, asks: Iterable[Ask], answer: Callable[[Sequence[Reply], float], Answer]) -> None:
        """`answer`: takes the place of `AskingDoor.answer`."""
        super().__init__(asks)
        self.answer = answer


class AskingDoor(Door):
    """A door that takes a body, JSON or another form, and makes asks of it, for the gateway."""

    methods: ClassVar[tuple[str, ...]] = ("POST",)
    tasks: ClassVar[BecomesTask] = BecomesTask.NEVER
    others: ClassVar[bool] = False  # whether the door also reads bodies that are not JSON
    small: ClassVar[int] = LARGE  # bytes: a body up to this is read at once, a larger one if it `is_quick`

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        # `render`, bound once. Nearly every request hands it to its caller.
        self.bound_render: Render = self.render

    @abstractmethod
    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        """Returns the asks of a body, in order; a `Call` if the answer depends on what the body says. Raises
        `errors.Refused`. A body may be large, so this is a generator: other clients have their turn at each `yield`
        (`steps.py`)."""

    def read_letter(self, letter: Letter) -> Steps[Sequence[Ask]]:
        """Returns the asks of a letter. A door overrides this if its path has names in it, or if it reads bodies
        that are not JSON in a way of its own."""
        if letter.media is Media.JSON:
            return self.read(letter.body, letter.headers)
        return self.read_other(letter.media, letter.body, letter.query)

    def is_quick(self, letter: Letter) -> bool:
        """Whether a body that is not small is read in next to no time: it needs no checks, as one of bytes, or
        hardly any."""
        return letter.media is Media.OCTETS or (letter.media is Media.JSON and is_plain(letter.body))

    def read_one(self, body: bytes) -> "Ask | Call | None":
        """Returns the ask of a small body, if it has one ask and its head does not change how it is read: a shorter
        way. A `Call` holds that one ask. None: `read` must read it."""
        return None

    def read_other(self, media: Media, body: bytes, query: str) -> Steps[Sequence[Ask]]:
        """Returns the asks of a body that is not JSON. Called only if `others` is set."""
        raise NotImplementedError

    def rendering(self, wanted: Media) -> Render:
        """Returns the function that makes the answer to the only ask, in the form that its client wants if the door
        knows that form."""
        return self.render

    @abstractmethod
    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        """Returns the answer to replies that all have an output, in the order of the asks."""

    def unfit(self, reply: Reply, why: str) -> Answer:
        """Returns the answer where an output is not what this door is for. `why`: completes "the model …"."""
        request = reply.request
        failure = Failure(Unacceptable.code, f"the model {request.model!r} {why}")
        answer = self.failure(failure, request.request_id)
        answer.code = failure.code
        return answer

    def render(self, reply: Reply, now: float) -> Answer:
        """Returns the answer to the reply of the only ask, an output or a failure."""
        if reply.failure is not None:
            return self.failure(reply.failure, reply.request.request_id)
        return self.answer((reply,), now)

    def render_of(self, asks: Sequence[Ask], wanted: Media) -> Render:
        """Returns the function that makes the answer to the only one of these asks."""
        if not isinstance(asks, Call):
            return self.rendering(wanted)
        answer = asks.answer

        def render(reply: Reply, now: float) -> Answer:
            if reply.failure is not None:
                return self.failure(reply.failure, reply.request.request_id)
            return answer((reply,), now)

        return render


class Visit(NamedTuple):
    """A request to a door that tells something."""

    method: str
    path: str
    query: str
    identity: Identity | None  # None: clients need not say who they are here
    body: bytes = b""
    headers: Headers = NO_HEADERS
    pieces: Sequence[bytes] = ()  # of a body that is larger than `limits.max_body`, in the place of `body`
    # Begins an answer that comes part by part. None: the client has left.
    begin: Callable[[Answer], Parts | None] = lambda answer: None

    @property
    def tenant(self) -> str:
        return "" if self.identity is None else self.identity.tenant


class TalkingDoor(Door):
    """A door at which a connection changes its protocol, and becomes a conversation of many asks. It finds out by
    itself who asks, since a client may say that later."""

    methods: ClassVar[tuple[str, ...]] = ("GET",)

    @abstractmethod
    async def meet(self, caller: Caller, headers: Headers, reception: Reception) -> None:
        """Begin a conversation with the caller: have its connection `switch`. Raises `errors.Refused`."""


Respond = Callable[[Answer], None]


class TellingDoor(Door):
    """A door that tells of something that is here already, and asks no model."""

    methods: ClassVar[tuple[str, ...]] = ("GET",)

    @abstractmethod
    async def tell(self, visit: Visit, respond: Respond) -> None:
        """Answer the visit: call `respond` once, or `visit.begin` if the answer comes part by part. Raises
        `errors.Refused`."""
