"""One request of a client: what it says, and how it is sent once. `AsyncClient.ask` makes it. `AsyncClient.infer`
sends it until there is an answer (`async_client.py`), and so does a `map` (`workload.py`)."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from penstock.client import answer
from penstock.client.answer import Answer
from penstock.client.body import Body
from penstock.client.errors import Late
from penstock.client.road import Road

T = TypeVar("T")

SLACK = 0.5  # seconds beyond the deadline in which the server's own words may still arrive
LONGEST_POLL = 20.0  # seconds that the server may keep us waiting for a task's result


@dataclass(slots=True)
class Asking(Generic[T]):
    """One request. `kind`: the type that its output must have."""

    body: Body
    kind: type[T]
    key: str | None = None  # the Idempotency-Key

    async def once(self, road: Road, left: float | None) -> Answer[T]:
        """Sends the request once, and returns the answer. `left`: seconds to the deadline, which the server is told
        too; None without one. Raises InferenceError."""
        if left is not None:
            if left <= 0:
                raise Late("the time was over before the request could be sent", code="NOT_SENT")
            self.body.timeout_ms = max(1, int(left * 1000))
        limit = None if left is None else left + SLACK
        begun = road.loop.time()
        response = await road.send(self.body, self.key, limit)
        if response.status != 202:
            return answer.read(response, self.kind)
        return await self._fetch(road, answer.task_in(response), None if limit is None else begun + limit)

    async def _fetch(self, road: Road, task: str, end: float | None) -> Answer[T]:
        """Waits for the result of a task, until `end`: this server makes tasks of all requests."""
        while True:
            left = LONGEST_POLL if end is None else end - road.loop.time()
            if left <= 0:
                raise Late(f"task {task} has not ended in time", code="NO_ANSWER", maybe_run=True)
            response = await road.result(task, min(LONGEST_POLL, left), self.body.client_id)
            result = answer.result_in(response, self.kind)
            if result is not None:
                return result
