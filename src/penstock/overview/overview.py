"""The overview: everything that an operator sees at one moment. `view.py` makes it, with the verdict of
`verdict.py`. The admin plane gives it as JSON and shows it on its page, and `penstock top` in the terminal."""

from typing import Literal

from msgspec import Struct

from penstock.overview.figures import Figures
from penstock.overview.reports import Promise, Standing

Level = Literal["good", "warning", "bad"]


class Verdict(Struct):
    """How the installation stands, in a sentence, and what to do."""

    level: Level
    says: str
    advice: str = ""  # empty: nothing is to be done
    model: str = ""  # the model that this is about; empty: all of them


class ModelLook(Struct):
    """One model."""

    name: str
    figures: Figures
    outcomes: dict[str, int]  # accepted requests since the start, by how they ended
    refused: dict[str, int]  # requests refused on arrival since the start, by error code
    refused_tiers: dict[str, float]  # requests that batchers do not let in, a second, by tier
    letters: int  # requests that became dead letters since the start
    workers: int
    healthy: int  # how many of its workers can serve
    standing: Standing
    policy_reason: str  # what the policy does with these workers, in a sentence
    promise: Promise | None


class WorkerLook(Struct):
    """One worker."""

    worker: str
    model: str
    host: str
    status: str
    state: str
    utilization: float  # the part of the last seconds in which it was busy
    in_flight: int  # requests that it has in hand
    batches: int  # batches that it has run
    relative_service_time: float | None  # its service time as a multiple of the model's; None: not known here
    restarts: int
    last_seen: float  # seconds ago
    last_error: str


# The roles of processes that nobody asks how they stand: their heartbeats say all of it.
NOT_ASKED = ("worker", "autoscaler")


class ProcessLook(Struct):
    """A process of an installation over Redis."""

    name: str
    role: str
    host: str
    last_seen: float  # seconds ago
    told: bool  # whether its figures are in this overview; a role that is `NOT_ASKED` has none


class Overview(Struct):
    """Everything that an operator sees at one moment."""

    at: float  # seconds since the epoch
    name: str  # the process that was asked
    role: str
    version: str
    verdict: Verdict
    figures: Figures  # of all models together
    waiting: int  # accepted requests that are not answered yet
    models: list[ModelLook]
    workers: list[WorkerLook]
    processes: list[ProcessLook]  # empty where one process does everything


class Past(Struct):
    """One step of the last hour."""

    at: int  # seconds since the epoch
    figures: Figures  # of all models together
    models: dict[str, Figures]
