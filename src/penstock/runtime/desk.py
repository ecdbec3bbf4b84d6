"""Where requests for one model are taken in, and what of them may be answered together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.core.fingerprint import Fingerprints
from penstock.core.memory import Place
from penstock.errors import Refused
from penstock.ports import Broker
from penstock.types import Request

WINDOW = 1024  # landings between two looks at how many hits there were
THIN, STILL_THIN = 0.01, 0.002  # hits for each landing below which few answers are kept, and go on being
FEW = 32  # then one in so many

Admit = Callable[[Request, float], Refused | None]


class Sharing:
    """One deterministic model's: what identical requests have in common, and how often they had (SPEC B7, D7)."""

    def __init__(
        self, model: str, version: str, *, shared: bool, ttl: float, sees_dispatch: bool = True
    ) -> None:
        """`shared`: among all tenants; else each has its own. `ttl`: how long an answer is given again; 0: never.

        `sees_dispatch`: whether `Request.waiting` tells here that a request has not gone to a worker yet.
        """
        self.model = model
        self.shared = shared
        self.ttl = ttl
        self.sees_dispatch = sees_dispatch
        self.hits = self.misses = self.bypassed = 0  # requests, by what the cache said
        self.stored = 0  # answers
        self.collapsed = 0  # requests that went along with another's execution
        self.landed = 0  # executions that nobody had joined
        self.thin = False  # hardly anything is asked twice: few of those are kept
        self._hits_weighed = 0
        self._set(version)

    def weigh(self) -> None:
        """Whether keeping answers is worth its price; to be asked with every `WINDOW` landings.

        Filling memory with what nobody asks for again costs more than all else that a cache does. What is asked for
        often is soon among the few that are kept meanwhile.
        """
        hits, self._hits_weighed = self.hits - self._hits_weighed, self.hits
        self.thin = hits < (STILL_THIN if self.thin else THIN) * WINDOW

    def learn(self, version: str) -> None:
        """The version that runs now: nothing that another one said is given again."""
        if version != self.version:
            self._set(version)

    def _set(self, version: str) -> None:
        self.version = version
        self.epoch = f"{self.model}\0{version}"  # no name of a model has that character
        self.fingerprints = Fingerprints(self.model, version, shared=self.shared)

    def place(self, request: Request) -> Place:
        """Where its answer is, or will be."""
        tenant = "" if self.shared else request.tenant
        return request.input, self.epoch, tenant, request.parameters


@dataclass(frozen=True, slots=True)
class Desk:
    model: str
    kind: str  # of input: text or json
    broker: Broker
    admit: Admit
    backlog_seconds: Callable[[], float]  # how long what waits now will take
    cost: Callable[[bytes], float] | None  # of an input; None: each counts one
    takes_parameters: Callable[[], bool]
    time_limits: Sequence[tuple[float, float]]  # by tier: to be sent, and to be answered
    longest_limit: float
    announced: object = None  # by whoever told of the model, so that a change can be seen
    sharing: Sharing | None = None  # None: every request is executed
