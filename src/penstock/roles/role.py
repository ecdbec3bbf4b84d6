"""The roles that a process may have, and what each does. A role names itself when it makes its observers, and these
and the traces go by it: only a process that answers clients keeps a ledger, say. `penstock up` is no such process:
it starts others."""

from enum import Enum


class Role(Enum):
    """What a process does: whether it answers clients, forms batches, and runs them."""

    SERVE = ("serve", True, True, True)
    GATEWAY = ("gateway", True, False, False)
    BATCHER = ("batcher", False, True, False)
    WORKER = ("worker", False, False, True)
    AUTOSCALER = ("autoscaler", False, False, False)

    def __init__(self, called: str, answers: bool, forms: bool, runs: bool) -> None:
        self.called, self.answers, self.forms, self.runs = called, answers, forms, runs
