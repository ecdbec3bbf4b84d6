"""How long a message was on its way, when the clocks of sender and receiver have nothing in common.

    received − sent  =  the difference of the two monotonic clocks  +  the time on the way

The difference is the same for all messages of one sender, so the smallest sum seen belongs to the quickest
message, and whatever another one has above it was spent waiting. Wall clocks play no part: setting one, or
a whole hour between two machines, changes nothing.

Monotonic clocks drift apart by some 50 millionths, and stop while a machine sleeps. So only the last ten to
twenty seconds count: two spans, the older of which is forgotten when a new one begins. A sender that starts
anew comes under a new name, and begins anew here.
"""

from math import inf

SPAN = 10.0  # seconds that one span lasts


class _Smallest:
    __slots__ = ("before", "now", "since")

    def __init__(self, since: float) -> None:
        self.since = since  # when the span began
        self.before = inf  # the smallest sum in the span before
        self.now = inf


class Offsets:
    """The smallest sums seen, by sender."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._senders: dict[str, _Smallest] = {}
        self._swept = 0.0

    def __len__(self) -> int:
        return len(self._senders)

    def transit(self, sender: str, sent: float, received: float) -> float:
        """Seconds that a message was on its way beyond the quickest one of late; never negative."""
        smallest = self._senders.get(sender)
        if smallest is None:
            self._sweep(received)
            smallest = self._senders[sender] = _Smallest(received)
        elif received - smallest.since >= self._span:
            silent = received - smallest.since >= 2 * self._span
            smallest.before = inf if silent else smallest.now
            smallest.now, smallest.since = inf, received
        difference = received - sent
        if difference < smallest.now:
            smallest.now = difference
        return difference - min(smallest.now, smallest.before)

    def _sweep(self, now: float) -> None:
        """Forget who has been silent for long: a gateway's name is never used again."""
        self._senders = {
            name: smallest
            for name, smallest in self._senders.items()
            if now - smallest.since < 6 * self._span
        }
