"""The slowest requests of the last minutes, for the people who look at the live page. `Ended`, an observer, has a
`Slowest` and hands it all replies (`ended.py`).

Of replies that are given together, only the one that took longest is considered: the others were in the same batch,
and are named beside it. Each ten seconds have their slowest `KEPT`, for each model, and are forgotten together. Of
a reply that is not among these nothing is kept, so a busy server pays one look at the arrivals of a batch.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappush, heappushpop, nlargest
from typing import NamedTuple

from penstock.adapters.observe.timeline import MOST_NAMED, Row, row_of
from penstock.types import Reply, Seconds

SPAN = 10.0  # seconds whose slowest are kept together
KEPT = 20  # requests of one model and span


class Slow(NamedTuple):
    """One slow request. It is compared by its latency, and then by its number."""

    latency: Seconds
    number: int  # no two have the same
    answered: Seconds
    row: Row
    mates: Sequence[str]


class _Span:
    """The slowest of one span, by model."""

    def __init__(self, begun: Seconds) -> None:
        self.begun = begun
        self.heaps: dict[str, list[Slow]] = {}


class Slowest:
    """The slowest requests of each span of time."""

    def __init__(self, longest: Seconds) -> None:
        """`longest`: for how many seconds requests are kept."""
        self._longest = longest
        self._spans: deque[_Span] = deque()
        self._number = 0  # how many requests were ever kept

    def note(self, replies: Sequence[Reply], now: Seconds) -> None:
        """Keep the slowest of these replies, if it is slow enough."""
        arrivals = [reply.request.arrival for reply in replies]
        arrival = min(arrivals)
        reply = replies[arrivals.index(arrival)]
        heap = self._heap(reply.request.model, now)
        latency = now - arrival
        if len(heap) == KEPT and latency <= heap[0].latency:
            return
        self._number += 1
        slow = Slow(latency, self._number, now, row_of(reply), _mates(reply, replies))
        if len(heap) < KEPT:
            heappush(heap, slow)
        else:
            heappushpop(heap, slow)

    def _heap(self, model: str, now: Seconds) -> list[Slow]:
        spans = self._spans
        if not spans or now - spans[-1].begun >= SPAN:
            spans.append(_Span(now))
            while spans[0].begun < now - self._longest - SPAN:
                spans.popleft()
        return spans[-1].heaps.setdefault(model, [])

    def first(self, most: int, model: str, oldest: Seconds) -> list[Slow]:
        """Returns the slowest of those answered since `oldest`, the slowest first. `model`: empty for all."""
        return nlargest(most, (slow for slow in self._since(oldest) if model in ("", slow.row.model)))

    def find(self, request_id: str, oldest: Seconds) -> Slow | None:
        """Returns the last request of this id that was answered since `oldest`, if it was among the slowest."""
        found = [slow for slow in self._since(oldest) if slow.row.request_id == request_id]
        return max(found, key=lambda slow: slow.number, default=None)

    def _since(self, oldest: Seconds) -> Iterator[Slow]:
        for span in self._spans:
            for heap in span.heaps.values():
                yield from (slow for slow in heap if slow.answered >= oldest)


def _mates(reply: Reply, replies: Sequence[Reply]) -> list[str]:
    """Returns the ids of other requests in the same batch, MOST_NAMED at most."""
    execution = reply.execution
    if execution is None:
        return []
    mates = [each.request.request_id for each in replies if each.execution is execution and each is not reply]
    return mates[:MOST_NAMED]
