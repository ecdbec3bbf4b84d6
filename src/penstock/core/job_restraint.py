"""When the lines of jobs may go, so that nobody else is delayed by them. `runtime/jobs` asks before each line; the
time is an argument.

Rules
- Few lines are in flight for a model, however many jobs there are.
- No line goes while a request of anybody else waits for a worker.
- Where a model has several workers, one of them stays idle for whoever comes next.
- All the same a request may come while lines run, and wait for them, since a batch cannot be taken back: always
  where there is one worker, and otherwise if many come at once. So few may: at most `in_the_way` of the requests of
  others. Each request of another earns its part of such a meeting, and each meeting costs one. While none is left,
  no line goes.
- When nobody else has asked for `quiet` seconds, a meeting is granted.
"""

from collections import deque
from dataclasses import dataclass
from math import inf

from penstock.jobs import Slack
from penstock.types import Seconds

WAITED = 0.001  # seconds: whoever had less to wait has met nobody
REMEMBERED = 16  # volleys: a request that met one is told of a little after that


@dataclass(frozen=True, slots=True)
class RestraintRules:
    in_flight: int = 8  # requests of lines, for one model
    in_the_way: float = 0.001  # the share of others' requests that may wait for lines
    quiet: Seconds = 10.0


class Restraint:
    """The lines of all jobs for one model. A volley lasts from a line that goes while none is in flight until none
    is in flight again."""

    def __init__(self, rules: RestraintRules) -> None:
        self._rules = rules
        self._meetings = 1.0  # how many requests of others may still meet lines
        self._last_other = -inf  # when a request of another was last answered
        self._began: Seconds | None = None  # when the volley began
        self._volleys: deque[tuple[Seconds, Seconds]] = deque(maxlen=REMEMBERED)
        self.in_flight = 0

    def may_start(self, requests: int, slack: Slack, now: Seconds) -> bool:
        """Whether a line of so many requests may go now."""
        if self.in_flight and self.in_flight + requests > self._rules.in_flight:
            return False
        if slack.waiting > self.in_flight or not slack.idle:
            return False
        if slack.workers > 1 and slack.idle == 1:
            return False
        if now - self._last_other >= self._rules.quiet:
            self._meetings = max(self._meetings, 1.0)
        return self._meetings >= 1.0

    def started(self, requests: int, now: Seconds) -> None:
        if not self.in_flight:
            self._began = now
        self.in_flight += requests

    def ended(self, requests: int, now: Seconds) -> None:
        self.in_flight -= requests
        if not self.in_flight and self._began is not None:
            self._volleys.append((self._began, now))
            self._began = None

    def other_answered(self, arrival: Seconds, started: Seconds, now: Seconds) -> None:
        """Note that a request of somebody else has been answered. `started`: when it was begun on a worker."""
        self._last_other = now
        self._meetings = min(1.0, self._meetings + self._rules.in_the_way)
        if started - arrival <= WAITED:
            return
        met = self._began is not None and arrival >= self._began
        if met or any(began <= arrival < ended for began, ended in self._volleys):
            self._meetings -= 1.0
