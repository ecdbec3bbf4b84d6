"""A request and a batch with what only the batcher needs to know. Requests come into `core` as `Queued` and batches
leave it as `Sealed`: the pump of a server (`runtime/pump.py`) hands them in and sends them out, and the simulator
(`sim`) plays both. Over a bus `cluster` makes requests and sends batches of these classes."""

from dataclasses import dataclass

from penstock.types import Accepted, Batch, WorkerId


class Queued(Accepted, eq=False):
    """A request from the moment it is offered to the batcher."""

    waiting: bool = False  # whether it is in a buffer now; cleared when it is taken, cancelled or expired
    turn: float = 0.0  # virtual time of its tenant's turn, while it stands for its tenant in the buffer
    apart: bool = False  # whether its tenant has spoilt batches: it shares none with others
    executions: int = 0  # how many batches it has been in that failed


class BatchIds:
    """Numbers for the batches of one batcher, none of them given twice."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        self.last = 0

    def next(self) -> int:
        self.last += 1
        return self.last

    def some(self, number: int) -> int:
        """Take so many numbers. Returns the first of them."""
        first = self.last + 1
        self.last += number
        return first


@dataclass(slots=True, eq=False)
class Sealed(Batch):
    """A batch of the batcher that sealed it."""

    requests: list[Queued]
    avoid: WorkerId | None = None  # the worker that last failed it
    # Whether it is a part of a batch that did not answer in time, so that one of its members may hang again.
    suspect: bool = False
    # Whether its worker may die or hang of it: one did, or its tenant is set apart for that.
    risky: bool = False
    hurried: bool = False  # whether its time limit is short, so that other suspect batches have their turn
    apart: bool = False  # whether all its requests are of one tenant that has spoilt batches
    charged: bool = False  # whether its failure counts against that tenant already
    # The workers into whose memory this batch, or one that it is a part of, did not fit: each with the largest size
    # that it was given before.
    did_not_fit: tuple[tuple[WorkerId, int], ...] = ()
