"""Counts: what has happened to the requests of one model, as numbers that only grow. The difference of two has the
same form, and so has the sum of what several processes have counted.

Each process takes its own counts off its counters (`adapters/observe/sampling.py`); the diary and the view subtract
and add them.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from msgspec import Struct

K = TypeVar("K", str, int)

MICRO = 1_000_000  # latencies are counted in whole microseconds, so that they can be keys


class Counts(Struct):
    outcomes: dict[str, int] = {}  # accepted requests, by how they ended: SUCCESS or an error code
    refused: dict[str, int] = {}  # requests refused on arrival, by error code
    refused_tiers: dict[str, int] = {}  # requests that a batcher did not let in, by tier
    # Requests that succeeded, by the upper bound of the bucket of their latency, in microseconds.
    latency: dict[int, int] = {}
    reasons: dict[str, int] = {}  # batches, by why they went
    sizes: dict[int, int] = {}  # batches, by the upper bound of the bucket of their size
    batched: int = 0  # requests in all batches
    padding: int = 0  # inputs that were repeated to fill batches
    hits: int = 0  # requests answered by the cache
    misses: int = 0  # requests that the cache could not answer
    collapsed: int = 0  # requests answered with an identical one's execution
    letters: int = 0  # requests that became dead letters


_TABLES = ("outcomes", "refused", "refused_tiers", "latency", "reasons", "sizes")
_NUMBERS = ("batched", "padding", "hits", "misses", "collapsed", "letters")


def between(before: Counts, now: Counts) -> Counts:
    """Returns what has been counted since. What has not grown is left out."""
    found = Counts()
    for name in _TABLES:
        setattr(found, name, _grown(getattr(before, name), getattr(now, name)))
    for name in _NUMBERS:
        setattr(found, name, max(0, getattr(now, name) - getattr(before, name)))
    return found


def added(some: Iterable[Counts]) -> Counts:
    """Returns the sum."""
    total = Counts()
    for one in some:
        for name in _TABLES:
            table = getattr(total, name)
            for key, number in getattr(one, name).items():
                table[key] = table.get(key, 0) + number
        for name in _NUMBERS:
            setattr(total, name, getattr(total, name) + getattr(one, name))
    return total


def is_empty(counts: Counts) -> bool:
    return not any(getattr(counts, name) for name in (*_TABLES, *_NUMBERS))


def _grown(before: Mapping[K, int], now: Mapping[K, int]) -> dict[K, int]:
    return {key: more for key, number in now.items() if (more := number - before.get(key, 0)) > 0}
