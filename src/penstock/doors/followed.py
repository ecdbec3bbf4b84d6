"""A task that is followed: each change of its status is a server-sent event, and its result is the last. The door
of results tells a task in this way to a client that asks for it (`results.py`).

    event: status        now, and when it goes to a worker
    event: result        once it is over; then the answer ends

A page's `EventSource` connects again when an answer ends, and names the last event that it has seen. If that was
the result, it is answered 204, which makes it stay away.
"""

import logging
from collections.abc import Callable

from penstock.doors.door import Visit
from penstock.doors.every_answer import failed
from penstock.doors.large import LargeBodies
from penstock.edge.answer import Answer
from penstock.edge.caller import Parts
from penstock.edge.fields import Headers
from penstock.errors import Internal, PenstockError
from penstock.ports import Task
from penstock.types import Failure, TaskStatus

FIRST_LOOK = 0.1  # seconds until it is looked whether a task has gone to a worker: nobody is told of that
LONGEST_LOOK = 5.0  # seconds; the time between two looks doubles until then
SILENCE = 15.0  # seconds without an event, after which a client is told that the connection lives
OVER = b"over"  # the id of the last event
STILL_THERE = b": still there\n\n"
FIELDS = (
    ("content-type", "text/event-stream"),
    ("cache-control", "no-store"),
    ("x-accel-buffering", "no"),  # tells nginx to pass each event on at once
)
ENOUGH = Answer(204, [("cache-control", "no-store")], b"")

Tell = Callable[[Task], bytes]  # where a task stands, in JSON

log = logging.getLogger("penstock.doors")


def has_seen_the_end(headers: Headers) -> bool:
    return headers.get(b"last-event-id") == OVER


async def follow(visit: Visit, task: Task, tell: Tell, large: LargeBodies, most: int) -> None:
    """Answer with events until the task is over, or the client has left. `large`: the line in which a result of
    more than `most` bytes waits for its turn."""
    parts = visit.begin(Answer(200, FIELDS, b""))
    if parts is None:
        return
    try:
        await _until_over(parts, task, tell)
        reply = task.answer
        if reply is not None and len(reply.output) > most:
            async with large.turn(visit.tenant):
                last = _event(b"result", tell(task), OVER)
        else:
            last = _event(b"result", tell(task), OVER)
    except Exception as error:  # the head has gone out, so that an error can only be an event
        if not isinstance(error, PenstockError):
            log.exception("a task could not be followed")
            error = Internal("the server failed; its log says how")
        last = _event(b"error", failed(Failure.of(error), task.id).body)
    parts.end(last)


async def _until_over(parts: Parts, task: Task, tell: Tell) -> None:
    said: TaskStatus | None = None
    look, silent = FIRST_LOOK, 0.0
    while task.answer is None:
        if task.status is not said:
            said, silent = task.status, 0.0
            parts.send(_event(b"status", tell(task)))
        pause = min(SILENCE - silent, SILENCE if said is TaskStatus.PROCESSING else look)
        await task.wait(pause)
        look, silent = min(2 * look, LONGEST_LOOK), silent + pause
        if silent >= SILENCE and task.answer is None:
            silent = 0.0
            parts.send(STILL_THERE)


def _event(name: bytes, data: bytes, named: bytes = b"") -> bytes:
    """Returns an event. JSON may be on several lines, each of which is a line of data."""
    lines = b"\ndata: ".join(data.splitlines())
    return b"event: %b\n%bdata: %b\n\n" % (name, b"id: %b\n" % named if named else b"", lines)
