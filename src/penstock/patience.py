"""How long a loop waits before it tries again to reach Redis, while Redis is away. The waits grow, and the log
tells of an outage once.

`cluster/dispatch.py` and `cluster/idempotency.py` use this `Patience`. The loops of `adapters/redis` use the one in
`adapters/redis/link/outage.py`, which also knows the errors of redis-py. Other loops of `cluster` wait in ways of
their own. The loop does the waiting: nothing here sleeps, or asks Redis anything.
"""

import logging

from penstock.errors import StoreDown

_log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.020, 0.500  # seconds


class Patience:
    """The waits of one loop."""

    __slots__ = ("_what", "wait")

    def __init__(self, what: str) -> None:
        self._what = what  # who waits: the log says "<what> cannot reach Redis"
        self.wait = 0.0  # the last wait of the current outage; 0 if there is none

    @property
    def away(self) -> bool:
        """Whether Redis was away at the last try."""
        return self.wait > 0

    def is_outage(self, error: Exception) -> bool:
        """Whether this error may go away by waiting."""
        return isinstance(error, StoreDown)

    def failed(self, error: Exception) -> float:
        """Note an error, and return how long to wait before the next try. Raises the error if it is no outage."""
        if not self.is_outage(error):
            raise error
        if not self.wait:
            _log.warning("%s cannot reach Redis, and keeps trying: %s", self._what, error)
            self.wait = FIRST_WAIT
        else:
            self.wait = min(self.wait * 2, LONGEST_WAIT)
        return self.wait

    def succeeded(self) -> None:
        if self.wait:
            self.wait = 0.0
            _log.info("%s reaches Redis again.", self._what)
