"""One request of a client: what it says, and how it is sent once. `AsyncClient.infer` sends it until there is an
answer (`async_client.py`), and so does a `map` (`workload.py`)."""

from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlencode

from penstock.client import answer
from penstock.client.answer import Answer
from penstock.client.body import Body, encode
from penstock.client.connections import Connections
from penstock.client.errors import Late

T = TypeVar("T")

SLACK = 0.5  # seconds beyond the deadline in which the server's own words may still arrive
LONGEST_POLL = 20.0  # seconds that the server may keep us waiting for a task's result
POLL_SLACK = 5.0


@dataclass(frozen=True, slots=True)
class Road:
    """How requests of a client reach the server."""

    connections: Connections
    asking: bytes  # the part of a head that all requests have in common
    results: str  # where the results of tasks are
    polling: bytes  # the end of a head that asks for a result


@dataclass(slots=True)
class Asking(Generic[T]):
    """One request. `kind`: what its output must be."""

    body: Body
    kind: type[T]
    key: str | None = None  # the Idempotency-Key

    async def once(self, road: Road, left: float | None) -> Answer[T]:
        """Sends it. `left`: seconds to the deadline, which the server is told too. Raises InferenceError."""
        if left is not None:
            if left <= 0:
                raise Late("the time was over before the request could be sent", code="NOT_SENT")
            self.body.timeout_ms = max(1, int(left * 1000))
        form, body = encode(self.body)
        key = b"" if self.key is None else b"Idempotency-Key: %b\r\n" % self.key.encode()
        request = b"%b%b%bContent-Length: %d\r\n\r\n%b" % (road.asking, form, key, len(body), body)
        limit = None if left is None else left + SLACK
        begun = road.connections.loop.time()
        response = await road.connections.exchange(request, limit)
        if response.status != 202:
            return answer.read(response, self.kind)
        end = None if limit is None else begun + limit
        return await self._fetch(road, answer.task_in(response), end)

    async def _fetch(self, road: Road, task: str, end: float | None) -> Answer[T]:
        """Waits for the result of a task, until `end`: this server makes tasks of all requests."""
        while True:
            left = LONGEST_POLL if end is None else end - road.connections.loop.time()
            if left <= 0:
                raise Late(f"task {task} has not ended in time", code="NO_ANSWER", maybe_run=True)
            wait = min(LONGEST_POLL, left)
            query = {"wait_ms": str(int(wait * 1000))}
            if self.body.client_id is not None:
                query["client_id"] = self.body.client_id
            line = f"GET {road.results}{task}?{urlencode(query)} HTTP/1.1\r\n".encode()
            response = await road.connections.exchange(line + road.polling, wait + POLL_SLACK)
            result = answer.result_in(response, self.kind)
            if result is not None:
                return result
