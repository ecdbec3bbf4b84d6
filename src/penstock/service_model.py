"""How long a simulated GPU takes for a batch, and how often it misbehaves.

    sim:100ms                                  100 ms, whatever the batch
    sim:a=50ms,b=0.5ms,jitter=5%,fail=1%       50 ms + 0.5 ms for each request, and so on
    sim:1=12ms,8=14ms,32=100ms                 measured: the time of a batch of 1, of 8 and of 32
    sim:a=10ms,knee=16,pad=powers              a batch takes as long as one of the next power of two
    sim:5ms,length=0.5us                       5 ms, or 0.5 µs for each row × the longest input, if that is more
    sim:15ms,new_shape=80ms                    the first batch of each size takes 80 ms more, on each worker

The simulator (`sim/`) uses it in virtual time, and `adapters/backends/simulated.py` in real time. So there is no
clock here, and random numbers are handed in. `parse_service` reads the words after `sim:` for `roles`, and the same
words after `--service` and `--curve` for the commands (`roles/simulation.py`, `advice/curve.py`, `cli/tuned.py`).
"""

import math
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from penstock.errors import UserMistake
from penstock.types import Seconds
from penstock.units import MissingUnit, parse_duration


class Fault(StrEnum):
    """What may go wrong with one batch."""

    FAIL = "fail"  # the batch is refused
    HANG = "hang"  # no answer ever comes
    CRASH = "crash"  # the worker dies with the batch in hand
    GARBAGE = "garbage"  # more outputs than inputs
    SHORT = "short"  # one output is missing


@dataclass(frozen=True, slots=True)
class ServiceModel:
    """One simulated GPU. A batch takes `a` seconds up to `knee` requests, and `b` more for each request past it.

    Without a knee that is a + b·n. With b = a/knee it is max(a, b·n), the curve of a real GPU. Where `points`
    are given, they say it instead: the curve is straight between two of them, level before the first, and goes
    on after the last as it came.
    """

    a: Seconds = 0.0
    b: Seconds = 0.0
    knee: int | None = None
    points: tuple[tuple[int, Seconds], ...] = ()  # measured sizes and their times, by size
    length: Seconds = 0.0  # a batch takes at least this × its rows × the length of its longest input
    # Whether batches are padded to the next power of two, as in many real models: then the curve is a staircase.
    padded: bool = False
    jitter: float = 0.0  # the standard deviation of the time, as a part of it
    slow_factor: float = 1.0  # how many times slower the GPU is than `a`, `b` and `points` say
    new_shape: Seconds = 0.0  # how much longer a worker takes for its first batch of each size
    # This and the next four: the part of the batches that have this fault (`Fault`).
    fail: float = 0.0
    hang: float = 0.0
    crash: float = 0.0
    garbage: float = 0.0
    short: float = 0.0
    poison: str = ""  # a batch with this text in an input fails
    seed: int = 0

    def __post_init__(self) -> None:
        if sum(getattr(self, fault) for fault in Fault) > 1 + 1e-9:
            raise UserMistake("the faults of a simulated GPU add up to more than 100 %: lower some of them")

    def rows(self, n: int) -> int:
        """The size at which a batch of n is run."""
        return 1 << (n - 1).bit_length() if self.padded and n > 0 else n

    def seconds(self, n: int, z: float = 0.0, longest: int = 0) -> Seconds:
        """The time of a batch of n. `longest`: the length of its longest input. `z`: a random number from the
        standard normal distribution."""
        rows = self.rows(n)
        steady = self._steady(rows)
        if self.length:
            steady = max(steady, self.length * rows * longest)
        return steady * self.slow_factor * max(0.0, 1.0 + self.jitter * z)

    def level(self, n: float) -> Seconds:
        """The time of a batch of n, which need not be a whole number, without luck and without lengths."""
        return self._steady(n) * self.slow_factor

    def _steady(self, rows: float) -> Seconds:
        points = self.points
        if not points:
            return self.a + self.b * max(0.0, rows - (self.knee or 0))
        if rows <= points[0][0] or len(points) == 1:
            return points[0][1]
        right = min(bisect_left(points, (rows,)), len(points) - 1)
        (before, least), (after, most) = points[right - 1 : right + 1]
        return least + (most - least) * (rows - before) / (after - before)

    def fault(self, u: float) -> Fault | None:
        """The fault of a batch, if any. `u` is a random number from 0 to 1."""
        for fault in Fault:
            u -= getattr(self, fault)
            if u < 0:
                return fault
        return None


class NewShapes:
    """Which sizes one simulated GPU has run since it was started, and what the first run of each costs."""

    __slots__ = ("_met", "_model")

    def __init__(self, model: ServiceModel) -> None:
        self._model = model
        self._met: set[int] = set()

    def seconds(self, n: int) -> Seconds:
        """How much longer this batch of n takes than one of a size that was run before."""
        rows = self._model.rows(n)
        if rows in self._met:
            return 0.0
        self._met.add(rows)
        return self._model.new_shape


def parse_service(text: str) -> ServiceModel:
    """Read `sim:…`, with or without the `sim:`; a value without a name is `a`.

    A knee without a `b` gets the `b` with which a request takes as long beyond the knee as at it.
    """
    given: dict[str, Any] = {}
    points: dict[int, Seconds] = {}
    for part in text.removeprefix("sim:").split(","):
        name, equals, value = part.strip().partition("=")
        if not equals:
            name, value = "a", name
        if name.isdecimal():
            _add_point(points, name, value.strip(), text)
            continue
        if name not in SETTINGS:
            raise UserMistake(
                f"{text!r}: unknown setting {name!r}; a simulated GPU has {', '.join(SETTINGS)}, "
                "and times by size such as 1=12ms,32=100ms"
            )
        if name in given:
            raise UserMistake(f"{text!r}: {name} is given twice")
        try:
            given[name] = SETTINGS[name](value.strip())
        except ValueError as mistake:
            raise UserMistake(f"{text!r}: {name}={value.strip()} is not {mistake}") from None
    if points:
        if clash := given.keys() & {"a", "b", "knee"}:
            raise UserMistake(
                f"{text!r}: times by size say what a batch takes, and so does {min(clash)}: leave one of them out"
            )
        given["points"] = tuple(sorted(points.items()))
    if "pad" in given:
        given["padded"] = given.pop("pad")
    if "knee" in given:
        given.setdefault("b", given.get("a", 0.0) / given["knee"])
    return ServiceModel(**given)


def _add_point(points: dict[int, Seconds], size: str, value: str, text: str) -> None:
    """Take in what a batch of one size takes."""
    try:
        rows, seconds = _knee(size), _duration(value)
    except ValueError as mistake:
        raise UserMistake(f"{text!r}: {size}={value} is not {mistake}") from None
    if rows in points:
        raise UserMistake(f"{text!r}: {size} is given twice")
    points[rows] = seconds


def _duration(text: str) -> Seconds:
    try:
        return parse_duration(text)
    except MissingUnit as error:
        raise ValueError(f"a time: {error}") from None
    except ValueError:
        raise ValueError("a time such as 100ms, 0.1s or 250us") from None


def _share(text: str) -> float:
    expected = "a share such as 5% or 0.05"
    share = _number(text.removesuffix("%"), expected) / (100 if text.endswith("%") else 1)
    if share > 1:
        raise ValueError(expected)
    return share


def _factor(text: str) -> float:
    return _number(text, "a factor such as 10")


def _knee(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError("a batch size such as 64")
    return int(text)


def _pad(text: str) -> bool:
    if text != "powers":
        raise ValueError("powers, the only padding there is")
    return True


def _seed(text: str) -> int:
    if not text.isdecimal():
        raise ValueError("a whole number")
    return int(text)


def _word(text: str) -> str:
    if not text:
        raise ValueError("a word")
    return text


def _number(text: str, expected: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError(expected) from None
    if not math.isfinite(number) or number < 0:
        raise ValueError(expected)
    return number


SETTINGS: dict[str, Callable[[str], Any]] = {
    "a": _duration,
    "b": _duration,
    "knee": _knee,
    "jitter": _share,
    "slow_factor": _factor,
    "length": _duration,
    "pad": _pad,
    "new_shape": _duration,
    **dict.fromkeys(Fault, _share),
    "poison": _word,
    "seed": _seed,
}
