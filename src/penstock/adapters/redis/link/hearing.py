"""When Redis was last heard, and how long it may stay silent before it counts as away. A `Store` has one `Link`
(`connect.py`), in which whoever hears something notes it. A gateway's publisher watches it (`listening.py`), to
know of an outage early. Pure but for the clock.

A connection that breaks is reported as broken. A server that hangs, or a network that loses everything, is
recognised only by its silence. Redis is silent when a question has been sent and nothing at all has been heard, on
any connection, for longer than `patience`. That is 80 ms, or more where the usual round trip is so long or so
uneven that 80 ms prove nothing. The round trip is learned as TCP learns its own (RFC 6298): its mean, and how far
it strays from the mean. A lost packet costs a few more round trips, so `patience` leaves time for those too.
"""

from time import monotonic

from penstock.ports import Clock

SILENCE = 0.08  # seconds that `patience` is at least; clients should learn within 100 ms that Redis is away
LONG = 0.1  # seconds of a usual round trip from which on a link is long
LOST, STRAY = 3.0, 4.0  # a round trip may take LOST times its mean, and STRAY times its usual deviation
_MEAN, _DEVIATION = 1 / 8, 1 / 4  # the weight of the latest round trip in the mean, and in the deviation


class Link:
    """What one process hears of its Redis. Until the first round trip is measured, `patience` is the time-out of a
    command."""

    __slots__ = ("_clock", "_deviation", "_mean", "_most", "heard_at", "patience")

    def __init__(self, most: float, clock: Clock = monotonic) -> None:
        """`most`: seconds after which a command fails in any case."""
        self._most = most
        self._clock = clock
        self._mean = -1.0
        self._deviation = 0.0
        self.heard_at = 0.0  # when anything was last heard
        self.patience = most

    @property
    def is_long(self) -> bool:
        """Whether a round trip usually takes so long that nobody should wait behind a packet that was lost."""
        return self._mean >= LONG

    def heard(self) -> None:
        """Note that something came from Redis."""
        self.heard_at = self._clock()

    def answered(self, asked: float) -> None:
        """Learn from a question that Redis answers at once. `asked`: when it was sent."""
        self.heard_at = now = self._clock()
        took = now - asked
        if self._mean < 0:
            self._mean, self._deviation = took, took / 2
        else:
            self._deviation += _DEVIATION * (abs(took - self._mean) - self._deviation)
            self._mean += _MEAN * (took - self._mean)
        self.patience = min(self._most, max(SILENCE, LOST * self._mean + STRAY * self._deviation))
