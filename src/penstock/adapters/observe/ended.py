"""Requests that have ended or were refused of late, for a person who asks what became of one. Every process has an
`Ended` among its observers (`roles/observers.py`). Where clients ask, the admin plane searches it and, over Redis,
so do other gateways.

All replies of a batch are noted at once, and searched only when somebody asks. Number and age are bounded.

A busy server notes all requests that failed, and about a thousand a second of those that succeeded. To note tens of
thousands a second would cost every request something, and each would be forgotten before anybody could ask for it.
The slowest are kept apart (`slowest.py`), so that a busy server has them too.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from penstock.adapters.observe.slowest import Slowest
from penstock.adapters.observe.timeline import Clocks, Row, described, row_of
from penstock.adapters.observe.turned_away import TurnedAway
from penstock.ports import RequestObserver
from penstock.types import Outcome, Refusal, Reply, Seconds

MOST = 20_000  # requests
A_SECOND = 1_000  # requests that succeeded, noted in one second; a whole batch more at most
LONGEST = 600.0  # seconds that a request is remembered


class Known(NamedTuple):
    """A request that is remembered."""

    answered: Seconds
    row: Row
    mates: Sequence[str]  # the ids of others that were in its batch


class Ended(RequestObserver):
    """The memory of requests that have ended."""

    def __init__(self, clocks: Clocks, most: int = MOST) -> None:
        self._clocks = clocks
        self._most = most
        # When each batch ended, and its rows; the newest last.
        self._batches: deque[tuple[float, list[Row]]] = deque()
        self._number = 0  # requests in all batches
        self._second = 0  # the present second
        self._noted = 0  # requests noted in the present second
        self._slowest = Slowest(LONGEST)
        self._turned_away = TurnedAway(clocks)

    def __len__(self) -> int:
        return self._number

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        self._slowest.note(replies, now)
        if (second := int(now)) != self._second:
            self._second, self._noted = second, 0
        if self._noted >= A_SECOND:
            replies = [reply for reply in replies if reply.failure is not None]
            if not replies:
                return
        self._noted += len(replies)
        batches = self._batches
        batches.append((now, [row_of(reply) for reply in replies]))
        self._number += len(replies)
        while self._number > self._most or batches[0][0] < now - LONGEST:
            self._number -= len(batches.popleft()[1])

    def refused(self, refusal: Refusal) -> None:
        self._turned_away.note(refusal)

    def find(self, request_id: str) -> dict[str, Any] | None:
        """Returns what became of the latest request of this id; None if it is not remembered."""
        oldest = self._clocks.now() - LONGEST
        found = self._find(request_id, oldest)
        refused = self._turned_away.find(request_id, oldest)
        if refused is not None and (found is None or refused.when > found.answered):
            return refused.said
        if found is None:
            return None
        said = described(found.row, found.answered, found.mates, self._clocks)
        if found.row.outcome is Outcome.EXPIRED:
            said |= self._next_batch(found.row, found.answered)
        return said

    def _find(self, request_id: str, oldest: Seconds) -> Known | None:
        for ended, rows in reversed(self._batches):
            if ended < oldest:
                break
            for row in rows:
                if row.request_id == request_id:
                    return Known(ended, row, _mates(row, rows))
        slow = self._slowest.find(request_id, oldest)
        return None if slow is None else Known(slow.answered, slow.row, slow.mates)

    def _next_batch(self, late: Row, after: Seconds) -> dict[str, Any]:
        """Returns when the next batch of the model of this request was sent and done, of those that have ended."""
        batches = {
            row.execution.sent: row.execution.ended
            for ended, rows in self._batches
            if ended > after
            for row in rows
            if row.model == late.model and row.execution is not None and row.execution.sent is not None
        }
        sent = min((sent for sent in batches if sent >= after), default=None)
        if sent is None:
            return {}
        times = {"sent": sent, "ended": batches[sent]}
        return {"next_batch_ms": {name: round((at - late.arrival) * 1e3, 3) for name, at in times.items()}}

    def slowest(self, most: int, model: str = "") -> list[dict[str, Any]]:
        """Returns the slowest requests of the last ten minutes, the slowest first; with a model only its own."""
        found = self._slowest.first(most, model, self._clocks.now() - LONGEST)
        return [described(each.row, each.answered, each.mates, self._clocks) for each in found]

    def describe_reply(self, reply: Reply, ended: float) -> dict[str, Any]:
        """Describes the request of this reply, as `find` does."""
        return described(row_of(reply), ended, (), self._clocks)


def _mates(row: Row, rows: Sequence[Row]) -> list[str]:
    """Returns the ids of the rows that were in the same batch."""
    if row.execution is None:
        return []
    return [each.request_id for each in rows if each.execution is row.execution and each is not row]
