"""What became of each scheduled request, in flat arrays, so that recording costs next to nothing.

`load.py` makes it, `pool.py` fills it, and `progress.py` and `series.py` read it. Times are seconds from the start
of the schedule. Answers are read only as far as the figures need: the status, the batch size of a good answer, and
the error code of a bad one.
"""

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator

from penstock.bench.scrape import Window
from penstock.load.report import Batches, Summary, summarize

_SIZE = b'"batch_size":'
_DIGITS = re.compile(rb"\s*(\d{1,9})")
_CODE = re.compile(rb'"error"\s*:\s*"([A-Za-z0-9_]{1,64})"')
REFUSALS = frozenset((429, 503))
LONGEST_MESSAGE = 300  # characters of an error's message that are shown


class Outcomes:
    """What is known of each request of the schedule: one entry in each array, at the request's index."""

    def __init__(self, times: "array[float]") -> None:
        count = len(times)
        self.times = times
        self.sent = array("d", bytes(8 * count))  # 0 while not sent
        self.done = array("d", bytes(8 * count))  # 0 while not settled
        self.status = array("H", bytes(2 * count))  # 0 while not answered
        self.batch_size = array("L", bytes(array("L").itemsize * count))
        self.codes: dict[int, str] = {}  # error codes, by the index of a request that was refused or failed
        self.messages: dict[str, str] = {}  # by error code, the message of the first request that had it
        self.ok = self.rejected = self.failed = self.resent = 0
        self.recent: list[float] = []  # latencies since the progress line last took them

    @property
    def settled(self) -> int:
        """How many requests have ended."""
        return self.ok + self.rejected + self.failed

    def went(self, index: int, now: float) -> None:
        """Note that a request goes out. If it goes out again, the first time counts."""
        if not self.sent[index]:
            self.sent[index] = now
        else:
            self.resent += 1

    def answered(self, index: int, now: float, status: int, body: bytes) -> None:
        """Note the answer to a request."""
        self.done[index] = now
        self.status[index] = status
        if status == 200:
            self.ok += 1
            self.recent.append(now - self.times[index])
            # Searched from the end, because an output may contain the same words.
            at = body.rfind(_SIZE)
            if at >= 0 and (digits := _DIGITS.match(body, at + len(_SIZE))):
                self.batch_size[index] = int(digits[1])
            return
        if status in REFUSALS:
            self.rejected += 1
        else:
            self.failed += 1
        found = _CODE.search(body)
        code = self.codes[index] = found[1].decode() if found else f"HTTP_{status}"
        if code not in self.messages:
            self.messages[code] = _message_in(body)

    def lost(self, index: int, now: float, code: str) -> None:
        """Note that a request will have no answer; `code` says why."""
        self.done[index] = now
        self.codes[index] = code
        self.failed += 1

    def measured(self, start: float, end: float) -> Iterator[int]:
        """Returns the indices of the requests that have ended and whose scheduled time is in the window."""
        return (i for i, at in enumerate(self.times) if start <= at < end and self.done[i])

    def summary(
        self, start: float, end: float, *, timeout: float | None, window: Window | None, source: str
    ) -> Summary:
        """Returns the figures of the measured window. `window`: what the server says of it, if it says anything."""
        latencies, refusals, lateness = array("d"), array("d"), array("d")
        errors: Counter[str] = Counter()
        batches, members = 0.0, 0
        times, status = self.times, self.status
        for i in self.measured(start, end):
            latency = self.done[i] - times[i]
            if self.sent[i]:
                lateness.append(self.sent[i] - times[i])
            if status[i] == 200:
                latencies.append(latency)
                if self.batch_size[i]:
                    batches += 1 / self.batch_size[i]
                    members += 1
            else:
                errors[self.codes[i]] += 1
                if status[i] in REFUSALS:
                    refusals.append(latency)
        if window is None:
            # Each request of a batch of n counts as 1/n of a batch.
            batch = Batches(round(batches, 2), round(members / batches, 3) if batches else None)
        else:
            batch = window.batch
        return summarize(
            duration=end - start,
            latencies=latencies,
            rejected_latencies=refusals,
            errors=errors,
            batch=batch,
            busy=window.busy if window else None,
            late=sum(latency > timeout for latency in latencies) if timeout else 0,
            generator_lateness=lateness,
            resent=self.resent,
            source=source,
        )


def _message_in(body: bytes) -> str:
    """Returns the message in the body of an error, on one line; empty if there is none."""
    try:
        message = str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return ""
    return "".join(each if each.isprintable() else " " for each in message[:LONGEST_MESSAGE])
