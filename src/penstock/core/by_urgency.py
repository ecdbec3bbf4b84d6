"""Requests in the order they came, and which of them runs out of time first. The requests of one tier of a lane
stand in one `ByUrgency`, beside the order in which they are served (`tier`).

Most requests have the same time limits: the first to come then also runs out of time first, and one queue tells
both. Once a request comes whose time is up before that of an earlier one, two more queues are kept beside the
first. They are two, because a request has two limits (for its wait and for its answer), and which of them is up
first depends on how long a batch takes at the moment.

A request that no longer waits is called dead, and is dropped when it comes to the front.
"""

from collections import deque
from collections.abc import Sequence

from penstock.core.ordered import Ordered
from penstock.core.queued import Queued
from penstock.types import Seconds


class ByUrgency:
    __slots__ = ("_deadlines", "_expiries", "_requests", "_sequence")

    def __init__(self) -> None:
        self._requests: deque[Queued] = deque()
        # The two further queues, by deadline and by the limit of the wait. Both are None while one queue is enough.
        self._deadlines: Ordered | None = None
        self._expiries: Ordered | None = None
        self._sequence = 0  # numbers the entries of the two further queues in the order they came

    def __len__(self) -> int:
        """The length of the longest queue, the dead included."""
        length = len(self._requests)
        if self._deadlines is None or self._expiries is None:
            return length
        return max(length, len(self._deadlines), len(self._expiries))

    def push(self, request: Queued) -> None:
        """Take in the request that came last."""
        requests = self._requests
        if self._deadlines is not None:
            self._sort_in(request)
        elif requests:
            last = requests[-1]
            if request.deadline < last.deadline or request.expires < last.expires:
                self._break_order()
                self._sort_in(request)
        requests.append(request)

    def extend(self, requests: Sequence[Queued]) -> None:
        """Take in requests that are in order among themselves, by deadline and by the limit of the wait."""
        first, mine = requests[0], self._requests
        last = mine[-1] if mine else first
        if self._deadlines is None and first.deadline >= last.deadline and first.expires >= last.expires:
            mine.extend(requests)
        else:
            for request in requests:
                self.push(request)

    def _break_order(self) -> None:
        self._deadlines, self._expiries = Ordered(), Ordered()
        for request in self._requests:
            if request.waiting:
                self._sort_in(request)

    def _sort_in(self, request: Queued) -> None:
        assert self._deadlines is not None
        assert self._expiries is not None
        self._sequence += 1
        self._deadlines.push((request.deadline, self._sequence, request))
        self._expiries.push((request.expires, self._sequence, request))

    def oldest(self) -> Queued | None:
        """The request that came first of those that wait; None if none does."""
        requests = self._requests
        while requests and not requests[0].waiting:
            requests.popleft()
        return requests[0] if requests else None

    def newest(self) -> Queued:
        """The request that came last. Something must wait."""
        return next(request for request in reversed(self._requests) if request.waiting)

    def most_urgent(self, horizon: Seconds) -> Queued | None:
        """The request whose time runs out first, if a batch takes `horizon`. None if nothing waits."""
        if self._deadlines is None or self._expiries is None:
            return self.oldest()
        by_deadline, by_expiry = self._deadlines.first(), self._expiries.first()
        if by_deadline is None or by_expiry is None:
            return None
        return by_expiry[2] if by_expiry[0] < by_deadline[0] - horizon else by_deadline[2]

    def drop_dead(self) -> None:
        """Drop the dead in front."""
        self.oldest()
        self.most_urgent(0.0)

    def compact(self) -> None:
        """Drop all that are dead."""
        self._requests = deque([request for request in self._requests if request.waiting])
        if self._deadlines is not None and self._expiries is not None:
            self._deadlines.compact()
            self._expiries.compact()

    def clear(self) -> None:
        """Forget all: nobody waits, and whoever comes next is in order."""
        self._requests.clear()
        self._deadlines = self._expiries = None
