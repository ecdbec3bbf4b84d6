"""Requests that were refused on arrival, for a person who asks why. `Ended`, an observer, has a `TurnedAway` and
hands it every refusal (`ended.py`).

Of a busy server's refusals about a thousand a second are noted, and the last of them kept.
"""

from collections import deque
from typing import Any, NamedTuple

from penstock.adapters.observe.timeline import Clocks, error_of
from penstock.types import Refusal, Seconds

MOST = 5_000  # refusals
A_SECOND = 1_000  # refusals that are noted in one second


class Found(NamedTuple):
    """A refusal that was asked for."""

    when: Seconds
    said: dict[str, Any]


class TurnedAway:
    """The memory of refusals."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        self._refusals: deque[Refusal] = deque(maxlen=MOST)
        self._second = 0  # the present second
        self._noted = 0  # refusals noted in the present second

    def note(self, refusal: Refusal) -> None:
        if (second := int(refusal.when)) != self._second:
            self._second, self._noted = second, 0
        if self._noted < A_SECOND:
            self._noted += 1
            self._refusals.append(refusal)

    def find(self, request_id: str, oldest: Seconds) -> Found | None:
        """Returns the latest refusal of this id since `oldest`; None if it is not remembered."""
        for refusal in reversed(self._refusals):
            if refusal.when < oldest:
                break
            if refusal.request_id == request_id:
                return Found(refusal.when, self._described(refusal))
        return None

    def _described(self, refusal: Refusal) -> dict[str, Any]:
        known = {"model": refusal.model, "tenant": refusal.tenant}
        error = {"error": refusal.code} if refusal.failure is None else error_of(refusal.failure)
        return {
            "request_id": refusal.request_id,
            **{name: value for name, value in known.items() if value},
            "status": "REFUSED",
            "arrived": self._clocks.time_of_day(refusal.when),
            "error": error,
        }
