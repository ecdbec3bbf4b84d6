"""What is to be done after a decision."""

from typing import NamedTuple

from msgspec import Struct

from penstock.core.queued import Sealed
from penstock.types import Execution, Failure, GivenUp, Reply, Seconds, WorkerId


class Ended(NamedTuple):
    """A batch whose worker is done with it, or has given up."""

    batch: Sealed
    execution: Execution
    failure: Failure | None  # None: it has outputs


class Effects(Struct):
    """What is to be done now."""

    dispatches: list[tuple[WorkerId, Sealed]] = []
    replies: list[Reply] = []
    # Requests that failed for good, which are among the replies.
    given_up: list[GivenUp] = []
    ended: list[Ended] = []  # batches that have ended
    wake: Seconds | None = None
