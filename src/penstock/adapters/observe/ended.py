"""Requests that have ended of late, for a person who asks what became of one. It is one of a gateway's observers;
the admin plane and, over Redis, other gateways ask it.

All replies of a batch are noted at once, and searched only when somebody asks. Number and age are bounded. Inputs
and outputs are not kept, nor are the details of an error, which may quote an input.

A busy server notes all requests that failed, and about a thousand a second of those that succeeded. To note tens of
thousands a second would cost every request something, and each would be forgotten before anybody could ask for it.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from penstock.ports import RequestObserver
from penstock.types import Execution, Failure, Outcome, Reply
from penstock.units import iso_time

MOST = 20_000  # requests
A_SECOND = 1_000  # requests that succeeded, noted in one second; a whole batch more at most
LONGEST = 600.0  # seconds that a request is remembered

# A row: id, model, tenant, tier, arrival, how the request ended, why, and how it was run.
Row = tuple[str, str, str, int, float, Outcome, Failure | None, Execution | None]


class Ended(RequestObserver):
    """The memory of requests that have ended."""

    def __init__(self, clock: Callable[[], float], wall_clock: Callable[[], float], most: int = MOST) -> None:
        self._clock = clock
        self._wall_clock = wall_clock
        self._most = most
        # When each batch ended, and its rows; the newest last.
        self._batches: deque[tuple[float, list[Row]]] = deque()
        self._number = 0  # requests in all batches
        self._second = 0  # the present second
        self._noted = 0  # requests noted in the present second

    def __len__(self) -> int:
        return self._number

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        if (second := int(now)) != self._second:
            self._second, self._noted = second, 0
        if self._noted >= A_SECOND:
            replies = [reply for reply in replies if reply.failure is not None]
            if not replies:
                return
        self._noted += len(replies)
        batches = self._batches
        batches.append((now, rows_of(replies)))
        self._number += len(replies)
        while self._number > self._most or batches[0][0] < now - LONGEST:
            self._number -= len(batches.popleft()[1])

    def find(self, request_id: str) -> dict[str, Any] | None:
        """Returns what became of the latest request of this id; None if it is not remembered."""
        now = self._clock()
        for ended, rows in reversed(self._batches):
            if ended < now - LONGEST:
                break
            for row in rows:
                if row[0] == request_id:
                    return self.describe(row, ended)
        return None

    def describe_reply(self, reply: Reply, ended: float) -> dict[str, Any]:
        """Describes the request of this reply, as `describe` does."""
        return self.describe(rows_of([reply])[0], ended)

    def describe(self, row: Row, ended: float) -> dict[str, Any]:
        """Returns the request of a row as the admin plane shows it. `ended`: when, on the same clock as
        `arrival`."""
        request_id, model, tenant, tier, arrival, outcome, failure, execution = row
        said: dict[str, Any] = {
            "request_id": request_id,
            "model": model,
            "tenant": tenant,
            "tier": tier,
            "status": outcome,
            "ended": iso_time(self._wall_clock() - (self._clock() - ended)),
            "latency_ms": round((ended - arrival) * 1e3, 3),
        }
        if failure is not None:
            said["error"] = {"error": failure.code, "message": failure.message}
        if execution is not None:
            said |= {
                "queue_ms": round((execution.started - arrival) * 1e3, 3),
                "inference_ms": round(execution.seconds * 1e3, 3),
                "batch_size": execution.batch_size,
                "worker": execution.worker,
                "cached": execution.cached,
            }
        return said


def rows_of(replies: Sequence[Reply]) -> list[Row]:
    return [
        (
            request.request_id, request.model, request.tenant, request.tier, request.arrival,
            reply.outcome, reply.failure, reply.execution,
        )
        for reply in replies
        for request in (reply.request,)
    ]  # fmt: skip
