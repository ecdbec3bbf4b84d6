"""What is to be done after a decision."""

from dataclasses import dataclass, field
from typing import NamedTuple

from penstock.core.queued import Sealed
from penstock.types import Execution, Failure, GivenUp, Reply, Seconds, WorkerId


class Ended(NamedTuple):
    """A batch whose worker is done with it, or has given up."""

    batch: Sealed
    execution: Execution
    failure: Failure | None  # None: it has outputs


@dataclass(slots=True)
class Effects:
    """What is to be done now."""

    # Batches that begin now. Those marked `ahead` are with their workers already.
    dispatches: list[tuple[WorkerId, Sealed]] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    # Requests that failed for good, which are among the replies.
    given_up: list[GivenUp] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)  # batches that have ended
    wake: Seconds | None = None
    # Batches to hand to workers that run another. They are among the dispatches of a later step, when they begin.
    ahead: list[tuple[WorkerId, Sealed]] = field(default_factory=list)
