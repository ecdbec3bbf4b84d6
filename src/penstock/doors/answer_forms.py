"""Makes answers that are not JSON, for clients that ask for them with `Accept`. The native doors (`native.py`)
write such answers with it.

    application/octet-stream    the output, if it is bytes, and nothing else
    application/msgpack         the same object as in JSON; an output that is bytes is bytes here too

Inside the server an output is JSON, and its note says whether it stands for bytes. If an answer cannot have the
form that the client wants, it is JSON: the function has run by then, and its output must not be lost. Failures are
JSON too.
"""

from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from penstock.doors.wishes import Media
from penstock.edge.answer import Answer
from penstock.edge.caller import Render
from penstock.output import as_bytes, without_note
from penstock.types import Reply


def in_form(media: Media, render: Render) -> Render:
    """Returns a function that makes answers in this form. `render` makes them in JSON."""
    if media is Media.JSON:
        return render
    return partial(_octets if media is Media.OCTETS else _msgpack, render)


def _octets(render: Render, reply: Reply, now: float) -> Answer:
    if reply.execution is None:
        return render(reply, now)
    output, note = as_bytes(reply.output)
    if output is None:
        return render(reply, now)
    return _answer(Media.OCTETS, _around(render, reply, note, now), output)


def _msgpack(render: Render, reply: Reply, now: float) -> Answer:
    if reply.execution is None:
        return render(reply, now)
    output, note = as_bytes(reply.output)
    around = _around(render, reply, note, now)
    said: dict[str, Any] = msgspec.json.decode(around.whole)
    said["output"] = msgspec.json.decode(without_note(reply.output)[0]) if output is None else output
    try:
        return _answer(Media.MSGPACK, around, msgspec.msgpack.encode(said))
    except OverflowError:  # an integer of more than 64 bits, which only JSON can hold
        return render(reply, now)


def _around(render: Render, reply: Reply, note: str, now: float) -> Answer:
    """Returns the answer in JSON, with null for its output."""
    return render(replace(reply, output=b"null\x1e%b\x1e" % note.encode() if note else b"null"), now)


def _answer(media: Media, around: Answer, body: bytes) -> Answer:
    fields = [
        ("content-type", media.value),
        *(field for field in around.fields if field[0] != "content-type"),
    ]
    return Answer(around.status, fields, body, around.usual)
