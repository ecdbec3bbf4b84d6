"""The waits of one loop that must outlive an outage: growing, and said aloud once."""

import logging

from penstock.errors import StoreDown

_log = logging.getLogger(__name__)

FIRST_WAIT, LONGEST_WAIT = 0.020, 0.500


class Patience:
    __slots__ = ("_what", "wait")

    def __init__(self, what: str) -> None:
        self._what = what  # as in "<what> cannot reach Redis"
        self.wait = 0.0  # of the outage that lasts; 0 when there is none

    @property
    def away(self) -> bool:
        return self.wait > 0

    def is_outage(self, error: Exception) -> bool:
        """Whether waiting may mend it."""
        return isinstance(error, StoreDown)

    def failed(self, error: Exception) -> float:
        """How long to wait before the next try; raises what waiting will not mend."""
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
