"""Reads `Idempotency-Key` from a request, and adds `Idempotency-Replayed` to the answer of a replay. The data plane
asks with each request of a door that takes such keys. What a key means is in `penstock/idempotency.py`."""

import re

from msgspec.structs import replace

from penstock.edge.answer import Answer, with_fields
from penstock.edge.caller import Caller, Render
from penstock.edge.fields import Headers
from penstock.errors import Malformed
from penstock.idempotency import Replay
from penstock.types import Reply

HEADER = b"idempotency-key"
REPLAYED = ("idempotency-replayed", "true")
LONGEST = 255  # characters
# A key as it is, or as a string in the form of RFC 9651, 3.3.3, which the IETF's draft asks for. Both forms name
# the same key.
PATTERN = r'[!#-~][!-~]{0,254}|"(?:[ !#-\[\]-~]|\\["\\]){1,255}"'
_KEY = re.compile(PATTERN.encode())
_ESCAPED = re.compile(rb"\\(.)")


def idempotency_key(headers: Headers) -> str | None:
    """Returns the request's key; None if it has none."""
    given = headers.get(HEADER)
    if given is None:
        return None
    if not _KEY.fullmatch(given):
        raise Malformed(
            f"'Idempotency-Key' must be 1 to {LONGEST} visible ASCII characters, as they are or in double quotes"
        )
    if given.startswith(b'"'):
        given = _ESCAPED.sub(rb"\1", given[1:-1])
    return given.decode()


class KeyedAnswer:
    """An asker that answers a caller. If the reply is a replay, the answer says so, and has the first request's
    id."""

    __slots__ = ("_caller", "_render")

    def __init__(self, caller: Caller, render: Render) -> None:
        self._caller = caller
        self._render = render

    def reply(self, reply: Reply) -> None:
        caller = self._caller
        if isinstance(reply, Replay):
            caller.render = _replayed(self._render)
            request = replace(reply.request, request_id=reply.first_id)
            reply = Reply(request, reply.outcome, reply.output, reply.failure, reply.execution)
        else:
            caller.render = self._render
        caller.reply(reply)


def _replayed(render: Render) -> Render:
    def render_again(reply: Reply, now: float) -> Answer:
        return with_fields(render(reply, now), [REPLAYED])

    return render_again
