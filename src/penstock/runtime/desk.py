"""The desk: where a gateway takes in requests for one model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import Refused
from penstock.ports import Broker
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.collapse.sharing import Sharing
from penstock.types import Request

Admit = Callable[[Request, float], Refused | None]
# Of a request that was let in, and so many more like it: why these are sure not to be let in all.
AdmitMore = Callable[[Request, int, float], Refused | None]


def one_by_one(request: Request, number: int, now: float) -> None:
    """Nothing is sure of many: each of them must be asked for."""


@dataclass(frozen=True, slots=True)
class Desk:
    model: str
    kind: str  # the kind of input: text or json
    broker: Broker[Passenger]
    admit: Admit
    backlog_seconds: Callable[[], float]  # how long the requests that wait now will take
    cost: Callable[[bytes], float] | None  # what an input costs; None: each costs one
    takes_parameters: Callable[[], bool]
    time_limits: Sequence[tuple[float, float]]  # by tier: seconds to be sent, and to be answered
    longest_limit: float
    admit_more: AdmitMore = one_by_one
    # Whether nobody can serve yet, since every worker is still in its first batch.
    loading: Callable[[], bool] = lambda: False
    sharing: Sharing | None = None  # None: every request is executed
    default: bool = False  # whether requests mean it that name no model
    responds_async: bool = False  # whether a request becomes a task, unless its client asks otherwise
    takes_bytes: Callable[[], bool] = lambda: False  # whether an input may be bytes
    output: str = "text"  # the kind of output: text or json
    max_batch: int = 1
    ready: Callable[[], bool] = lambda: True  # whether a worker can serve it now
    # The names of the parameters that it takes; None: any.
    parameter_names: Callable[[], Sequence[str] | None] = lambda: None
