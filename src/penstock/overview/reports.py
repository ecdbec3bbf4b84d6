"""What one process tells of itself: how its models stand, and what it has counted. `runtime/own_overview.py` makes
it. Over Redis it goes from process to process as MessagePack (`cluster/lookout.py`).

A process of another release may send more fields or fewer: unknown ones are skipped, and missing ones have their
defaults.
"""

from typing import NamedTuple

from msgspec import Struct

from penstock.overview.counts import Counts


class Standing(Struct):
    """How the queue of one model stands, and what its batcher has learned."""

    queue: dict[str, int] = {}  # requests that wait, by tier; the best tier first
    queue_limit: int = 0
    expected_wait: float | None = None  # seconds until a worker is free for a request that comes now
    # The depths at which the lowest tier, and all but the best, are refused; None: nobody knows yet.
    warning_depth: float | None = None
    critical_depth: float | None = None
    arrivals: float = 0.0  # requests let in, a second
    capacity: float = 0.0  # requests a second that all healthy workers can do; 0: nobody knows yet
    curve: list[tuple[int, float]] = []  # sizes of batches, and the seconds that each is believed to take
    best_batch: int = 0
    max_batch: int = 0
    policy: str = ""
    retry_budget: float = 1.0  # the part of the retry budget that is left


class Promise(Struct):
    """What clients of one model are promised."""

    objective: float  # seconds within which they are to be answered
    queue_timeout: float  # seconds that they may wait in the queue


class Sample(NamedTuple):
    """What a process has counted since it started, and how its models stand, at one moment. It is not sent to
    others."""

    counts: dict[str, Counts]  # of each model; refusals for a model that is not known are under an empty name
    standings: dict[str, Standing]  # none if this process forms no batches
    promises: dict[str, Promise]  # none if no client asks this process
    waiting: int  # accepted requests that are not answered yet


class ModelReport(Struct):
    """One model at one process."""

    total: Counts  # what was counted since the process started
    recent: Counts  # what was counted in the last `Report.seconds`
    standing: Standing | None = None  # None: this process forms no batches
    promise: Promise | None = None  # None: no client asks this process


class Moment(Struct):
    """One model in one step of the last hour."""

    counts: Counts
    queue: dict[str, int] = {}
    capacity: float = 0.0


class Step(Struct):
    """What a process noted at the end of one step."""

    at: int  # seconds since the epoch
    seconds: float  # how long the step was
    models: dict[str, Moment]


class Report(Struct):
    """What one process tells of itself."""

    name: str
    role: str
    seconds: float  # over how many seconds `ModelReport.recent` was counted
    models: dict[str, ModelReport]
    waiting: int = 0  # accepted requests that are not answered yet
    hour: list[Step] = []  # the steps of the last hour; empty unless they were asked for
