"""Tasks: the answer that announces one, which the data plane gives when it has accepted a task; and the door
`/v1/result/…`, where a task's result is fetched, the task followed (`followed.py`) or cancelled, whichever gateway
accepted it."""

import msgspec

from penstock.doors.door import Inside, Respond, TellingDoor, Visit
from penstock.doors.every_answer import in_full
from penstock.doors.followed import ENOUGH, follow, has_seen_the_end
from penstock.doors.idempotency import REPLAYED
from penstock.doors.large import LargeBodies
from penstock.doors.openapi_parts import (
    BYTES,
    CODES,
    OUTPUT,
    OUTPUT_ENCODING,
    STRING,
    TOKENS_USED,
    Described,
    Offer,
    answered,
    object_of,
    parameter,
    refused,
)
from penstock.doors.wishes import read_query
from penstock.edge.answer import JSON, Answer
from penstock.errors import Unacceptable
from penstock.output import in_json
from penstock.ports import Task
from penstock.types import TaskStatus
from penstock.units import iso_time

PLACE = "/v1/result/"
LARGE_RESULT = 128 * 1024  # bytes; a larger result waits for its turn


class Results(TellingDoor):
    """Tells where a task stands, waits for it, or cancels it."""

    name = "native"
    path = f"{PLACE}{{task_id}}"
    methods = ("GET", "DELETE")

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._large = LargeBodies(inside.gateway.clock)

    async def tell(self, visit: Visit, respond: Respond) -> None:
        if visit.method == "DELETE":
            task = await self._cancelled(visit)
        else:
            query = read_query(visit.query, "wait_ms", "client_id", "stream")
            wait = _wait_of(query)
            if self._is_followed(query):
                await self._follow(visit, query, respond)
                return
            task = await self._find(visit, query)
            if wait is not None:
                await task.wait(min(wait, self.inside.limits.max_long_poll))
        reply = task.answer
        if reply is None or len(reply.output) <= LARGE_RESULT:
            respond(_where_it_stands(task))
            return
        # Large results go one at a time, in a line of their own (see `large.py`).
        async with self._large.turn(visit.tenant):
            respond(_where_it_stands(task))

    def _is_followed(self, query: dict[str, str]) -> bool:
        if "stream" not in query:
            return False
        if query["stream"] != "1":
            raise Unacceptable("'stream' must be 1")
        return True

    async def _follow(self, visit: Visit, query: dict[str, str], respond: Respond) -> None:
        if has_seen_the_end(visit.headers):
            respond(ENOUGH)
            return
        task = await self._find(visit, query)
        await follow(visit, task, lambda task: _where_it_stands(task).body, self._large, LARGE_RESULT)

    async def _cancelled(self, visit: Visit) -> Task:
        task = await self._find(visit, read_query(visit.query, "client_id"))
        await task.cancel()
        return task

    async def _find(self, visit: Visit, query: dict[str, str]) -> Task:
        task_id = visit.path.removeprefix(PLACE)
        return await self.inside.gateway.find_task(task_id, query.get("client_id"), visit.identity)

    def describe(self, offer: Offer) -> Described:
        told = {
            "200": answered("The task", "Task", "X-Request-Id"),
            **refused(400, 404, 422, 500, 503),
        }
        followed = answered("The task, or, with `stream`, its events", "Task", "X-Request-Id")
        followed["content"] |= {"text/event-stream": BYTES}
        followed["headers"] = {}  # events have no id of their own
        result = {
            "operationId": "result",
            "tags": ["Tasks"],
            "summary": "Where a task stands, and its output",
            "description": "A result is kept for ten minutes, unless the server is set otherwise.",
            "parameters": [_WAIT, _STREAM],
            "responses": {
                **told,
                "200": followed,
                "204": {"description": "The client has seen the last event."},
            },
        }
        cancel = {
            "operationId": "cancel",
            "tags": ["Tasks"],
            "summary": "Cancel a task",
            "description": "What has not gone to a worker never goes. A task that is over stays as it is.",
            "responses": dict(told),
        }
        operations = {"parameters": [_TASK_ID, _CLIENT_ID], "get": result, "delete": cancel}
        return Described({self.path: operations}, {"Task": _TASK})


def _wait_of(query: dict[str, str]) -> float | None:
    """Returns how many seconds the client wants to wait; None if it does not say."""
    wait = query.get("wait_ms")
    if wait is None:
        return None
    if not (wait.isascii() and wait.isdigit() and len(wait) < 10):
        raise Unacceptable("'wait_ms' must be a whole number of milliseconds")
    return int(wait) / 1e3


_TASK_ID = parameter("task_id", "path", "As the 202 gave it.", {"type": "string", "minLength": 1})
_CLIENT_ID = parameter(
    "client_id", "query", "The client_id the task was made with; to others it is 404.", {"type": "string"}
)
_WAIT = parameter(
    "wait_ms",
    "query",
    "Wait this long for the task to be over, within the server's own limit.",
    {"type": "integer", "minimum": 0, "maximum": 999_999_999},
)
_STREAM = parameter(
    "stream",
    "query",
    "`1`: be told each change as a server-sent event, `status` and at last `result`; `wait_ms` then means nothing.",
    {"enum": ["1"]},
)
_TASK = object_of(
    {
        "task_id": STRING,
        "status": {"enum": [str(status) for status in TaskStatus]},
        "timestamp": {
            "type": "string",
            "format": "date-time",
            "description": "Of its last change, or its start.",
        },
        "output": {**OUTPUT, "description": "When SUCCESS."},
        "metadata": object_of(
            {"tokens_used": TOKENS_USED, "output_encoding": OUTPUT_ENCODING},
            optional=("tokens_used", "output_encoding"),
        ),
        "error": {
            **object_of({"error": {"enum": CODES}, "message": STRING}),
            "description": "When FAILED, EXPIRED or CANCELLED.",
        },
    },
    optional=("output", "metadata", "error"),
)


def accepted(task: Task, *, preferred: bool, again: bool) -> Answer:
    """Returns the answer that announces a task. `preferred`: the client asked for one. `again`: the task was there
    already."""
    fields = [JSON, ("location", f"{PLACE}{task.id}"), ("x-request-id", task.id)]
    if preferred:
        fields.append(("preference-applied", "respond-async"))
    if again:
        fields.append(REPLAYED)
    return Answer(202, fields, msgspec.json.encode({"task_id": task.id, "status": "PENDING"}))


def told(task: Task, with_output: bool) -> bytes:
    """Returns where a task stands, in JSON, as a webhook tells it. `ports.webhooks.Tell`."""
    return _where_it_stands(task, with_output=with_output).body


def _where_it_stands(task: Task, *, with_output: bool = True) -> Answer:
    said: dict[str, object] = {
        "task_id": task.id,
        "status": task.status,
        "timestamp": iso_time(task.changed_at),
    }
    reply = task.answer
    if reply is not None and reply.failure is not None:
        said["error"] = {"error": reply.failure.code, "message": in_full(reply.failure)}
    elif reply is not None and with_output:
        output, note = in_json(reply.output)
        said["output"] = msgspec.Raw(output)
        if note:
            said["metadata"] = msgspec.Raw(f"{{{note}}}".encode())
    return Answer(200, [JSON, ("x-request-id", task.id)], msgspec.json.encode(said))
