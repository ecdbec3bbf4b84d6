"""How long an envelope was on its way from its gateway to this batcher, although the clocks of sender and receiver
have nothing in common. A batcher's intake asks with each envelope, to know how much of a request's time is left.

    received − sent  =  the difference of the two monotonic clocks  +  the time on the way

The difference is the same for all envelopes of one sender. So the smallest sum seen belongs to the quickest
envelope, and any other envelope has waited for as long as its own sum is above that. Wall clocks play no part: two
machines may differ by an hour, and a clock may be set.

Monotonic clocks drift apart by some 50 millionths, and stop while a machine sleeps. So only the last ten to twenty
seconds count: two spans, the older of which is forgotten when a new one begins. A gateway that starts anew has a
new name, and nothing is known of it.
"""

from math import inf

SPAN = 10.0  # seconds that one span lasts


class _Smallest:
    """The smallest sum of one sender."""

    __slots__ = ("before", "now", "since")

    def __init__(self, since: float) -> None:
        self.since = since  # when the span began
        self.before = inf  # the smallest sum in the span before
        self.now = inf  # the smallest sum in this span


class Offsets:
    """The smallest sums seen, by sender."""

    def __init__(self, span: float = SPAN) -> None:
        self._span = span
        self._senders: dict[str, _Smallest] = {}

    def __len__(self) -> int:
        return len(self._senders)

    def transit(self, sender: str, sent: float, received: float) -> float:
        """Returns how many seconds longer an envelope was on its way than the sender's quickest of late; never
        negative."""
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
        """Forget senders that have been silent for long: a gateway's name is never used again."""
        self._senders = {
            name: smallest
            for name, smallest in self._senders.items()
            if now - smallest.since < 6 * self._span
        }
