"""The desk: all that a gateway knows of one model when it takes in a request for it. The gateway reads it for each
request. In one process `roles/model.py` makes it; over a bus `cluster/announced_desks.py` does, from what workers
announce."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.errors import Refused
from penstock.jobs import Slack
from penstock.ports import Broker
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.collapse.sharing import Sharing
from penstock.types import Request

Admit = Callable[[Request, float], Refused | None]
# Given a request that was let in, and a number: why so many more like it cannot all be let in.
AdmitMore = Callable[[Request, int, float], Refused | None]


def one_by_one(request: Request, number: int, now: float) -> None:
    """Refuses nothing: each request must be asked for by itself."""


@dataclass(frozen=True, slots=True)
class Desk:
    """What a gateway goes by for requests for one model."""

    model: str
    kind: str  # the kind of input: text or json
    broker: Broker[Passenger]
    admit: Admit  # why a request is not let in; None: it is
    backlog_seconds: Callable[[], float]  # how long the requests that wait now will take
    cost: Callable[[bytes], float] | None  # what an input costs; None: each costs one
    takes_parameters: Callable[[], bool]
    time_limits: Sequence[tuple[float, float]]  # by tier: seconds to be sent, and to be answered
    longest_limit: float  # seconds: the longest time limit that a client may set
    admit_more: AdmitMore = one_by_one
    # Whether nobody can serve yet, since every worker is still in its first batch.
    loading: Callable[[], bool] = lambda: False
    sharing: Sharing | None = None  # None: every request is executed
    default: bool = False  # whether requests that name no model go here
    responds_async: bool = False  # whether a request becomes a task, unless its client asks otherwise
    takes_bytes: Callable[[], bool] = lambda: False  # whether an input may be bytes
    output: str = "text"  # the kind of output: text or json
    max_batch: int = 1
    ready: Callable[[], bool] = lambda: True  # whether a worker can serve the model now
    # The names of the parameters that the model takes; None: any.
    parameter_names: Callable[[], Sequence[str] | None] = lambda: None
    # Seconds: the latency that the model's requests are meant to keep; None: their time limit.
    objective: float | None = None
    slack: Callable[[], Slack] = lambda: Slack(0, 1, 1)  # how busy its workers are now
