"""What the autoscaler is told of a model, what it says, and the settings it goes by. The scaler and both rules use
these records. `cluster/demand.py` and `sim/scaled.py` make the first, `from_config/scaling.py` the last."""

from dataclasses import dataclass
from typing import NamedTuple

from penstock.types import Seconds


class Seen(NamedTuple):
    """How one model stands at one moment."""

    arrived: float  # requests that came since the last look, refused ones included
    waiting: float  # requests that wait for a worker
    ready: int  # workers that can take a batch
    rate_of_one: float  # requests a second that one worker does at full batches; 0 while nobody knows
    batch: float = 1.0  # requests in such a batch


class Decision(NamedTuple):
    """How many workers there should be."""

    wanted: int
    why: str  # in plain words


@dataclass(frozen=True, slots=True)
class ScalingRules:
    """The settings of an autoscaler. Some matter to one rule only."""

    least: int = 1  # workers; 0: all of them may go while nobody asks
    most: int = 8
    rules: str = "predicted"  # a name in `scaler.RULES`
    target: float = 0.8  # the part of what a worker can do that is planned with
    drain: Seconds = 10.0  # time in which the workers that are added for a backlog should have worked it off
    fast: Seconds = 15.0  # the window in which a rise is noticed
    slow: Seconds = 60.0  # the window over which chance is averaged out
    # Nothing is removed within this time of any change, nor unless fewer workers were enough all that time.
    cool_down: Seconds = 300.0
    at_once: float = 0.2  # the part of the workers that may be removed in one step; one worker always may
    idle: Seconds = 600.0  # with `least` 0: time without a request after which the last worker goes
    start: Seconds = 30.0  # how long a start is believed to take, until one was measured
