"""What is to be done after a decision. `Batcher.step` returns it; in a server `runtime/pump.py` sends and answers
accordingly, and the simulator (`sim`) plays it."""

from typing import NamedTuple

from msgspec import Struct

from penstock.core.queued import Sealed
from penstock.types import Execution, Failure, GivenUp, Reply, Seconds, WorkerId


class Ended(NamedTuple):
    """A batch that has ended: its worker has answered or failed, or the batch was given to another worker."""

    batch: Sealed
    execution: Execution
    failure: Failure | None  # None: the batch has outputs


class Effects(Struct):
    """What is to be done now."""

    # Batches that begin now. Those marked `ahead` are with their workers already.
    dispatches: list[tuple[WorkerId, Sealed]] = []
    replies: list[Reply] = []  # replies to give
    # The replies among these to requests that failed for good: they may become dead letters.
    given_up: list[GivenUp] = []
    ended: list[Ended] = []  # batches that have ended, for the observers
    wake: Seconds | None = None  # when to call `step` again if nothing happens before
    # Batches to hand to workers that run another. They are among the dispatches of a later step, when they begin.
    ahead: list[tuple[WorkerId, Sealed]] = []
