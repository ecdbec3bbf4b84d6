"""Whether Redis is heard, and how long it usually takes to answer.

A connection that breaks says so. A server that hangs, or a network that swallows everything, says nothing; so it is
told by its silence. Redis is silent when something was asked and nothing at all has been heard, on any connection,
for longer than `patience`: 80 ms, or more where the usual round trip is so long or so uneven that 80 ms prove
nothing. The round trip is learned as TCP learns its own (RFC 6298): its mean, and how far it strays from that.
A lost packet costs a few round trips more, so there is time for those too.
"""

from time import monotonic

from penstock.ports import Clock

SILENCE = 0.08  # seconds at least: who asked is to know within 100 ms
LOST, STRAY = 3.0, 4.0  # times its mean, and its usual deviation besides, that a round trip may take
_MEAN, _DEVIATION = 1 / 8, 1 / 4  # the weight of the latest round trip


class Link:
    """What one process hears of its Redis. Until the first round trip `patience` is that of a command."""

    __slots__ = ("_clock", "_deviation", "_mean", "_most", "heard_at", "patience")

    def __init__(self, most: float, clock: Clock = monotonic) -> None:
        """`most`: seconds after which a command fails in any case."""
        self._most = most
        self._clock = clock
        self._mean = -1.0
        self._deviation = 0.0
        self.heard_at = 0.0  # when anything was last heard
        self.patience = most

    def heard(self) -> None:
        """Note that something came from Redis, whatever it was."""
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
