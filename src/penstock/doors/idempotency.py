"""`Idempotency-Key` on the way in, `Idempotency-Replayed` on the way out."""

import re

from msgspec.structs import replace

from penstock.doors import answers
from penstock.edge.caller import Caller
from penstock.edge.heads import Headers
from penstock.errors import Malformed
from penstock.idempotency import Replay
from penstock.types import Execution, Reply

HEADER = b"idempotency-key"
REPLAYED = ("idempotency-replayed", "true")
LONGEST = 255
# As it is, or as the string that the IETF's draft makes of it (RFC 9651, 3.3.3); the two forms name the same key.
PATTERN = r'[!#-~][!-~]{0,254}|"(?:[ !#-\[\]-~]|\\["\\]){1,255}"'
_KEY = re.compile(PATTERN.encode())
_ESCAPED = re.compile(rb"\\(.)")
_LINE = "idempotency-replayed: true\r\n"


def idempotency_key(headers: Headers) -> str | None:
    """None: there is none."""
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
    """Answers a connection, and says so when the outcome was told before: then under the first asker's id."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Caller) -> None:
        self._connection = connection

    def reply(self, reply: Reply) -> None:
        connection = self._connection
        if not isinstance(reply, Replay):
            connection.reply(reply)
        elif reply.failure is not None:
            status, headers, body = answers.error(reply.failure, reply.first_id)
            connection.respond(status, [*headers, REPLAYED], body)
        else:
            connection.render = _replayed(connection.render)
            request = replace(reply.request, request_id=reply.first_id)
            connection.reply(Reply(request, reply.outcome, reply.output, execution=reply.execution))


def _replayed(render: answers.Render) -> answers.Render:
    def render_again(reply: Reply, execution: Execution, now: float, ending: str) -> bytes:
        return render(reply, execution, now, _LINE + ending)

    return render_again
