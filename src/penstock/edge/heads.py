"""Heads of ordinary requests, read by one pattern.

llhttp reads whatever may come, and calls back for each header. Nearly every request is a POST with a body of a
given length, and all that matters of its head are the few fields in `TOLD`. For these one compiled pattern runs
over the whole head and finds them, however long the rest is and however it changes from request to request.

The pattern is strict. Whatever it does not match goes the long way, through llhttp: a field of `TOLD` that comes
twice or is spelt oddly, a field of `SPECIAL`, HTTP/1.0, a line that is folded, a head in several pieces. So nothing
is understood here that llhttp would understand otherwise, and a test holds the two together.
"""

import re
from collections.abc import Callable

from penstock.types import Identity

Headers = dict[bytes, bytes]
NO_HEADERS: Headers = {}

POST = b"POST"
MOST_FIELDS = 100  # in a head; with more it goes the long way, where it is refused

_CREDENTIAL = rb"[!-~]++"
_HEX = rb"[0-9a-f]"
# What is told of an ordinary head, and how it must be spelt.
TOLD: dict[bytes, bytes] = {
    b"host": rb"[!-+\--~]++",  # no comma: there is one
    b"content-length": rb"[0-9]{1,9}+",
    b"content-type": rb"application/json",
    b"authorization": rb"Bearer " + _CREDENTIAL,
    b"x-api-key": _CREDENTIAL,
    b"x-request-id": rb"[A-Za-z0-9._:+=@\-]{1,128}+",
    b"traceparent": _HEX + rb"{2}-" + _HEX + rb"{32}-" + _HEX + rb"{16}-" + _HEX + rb"{2}",
    b"tracestate": rb"[!-~](?: ?[!-~]){0,511}+",
}
# What changes how a request is read or answered: a head with one of these is not ordinary.
SPECIAL = (
    b"transfer-encoding", b"expect", b"upgrade", b"connection", b"content-encoding", b"prefer", b"idempotency-key",
    b"origin",
)  # fmt: skip


def _any_case(name: bytes) -> bytes:
    return re.sub(rb"[a-z]", lambda letter: b"[%b%b]" % (letter[0], letter[0].upper()), re.escape(name))


def _pattern() -> "re.Pattern[bytes]":
    """Groups: the address, then the fields of `TOLD` in their order. A field that was found before cannot match
    again, nor can it pass for another."""
    token, value = rb"[!#-'*+\-.^_`|~0-9A-Za-z]", rb"[\t -~\x80-\xff]*+"
    # Most of what matters to nobody here begins like this. It could be left out, and only saves time.
    usual = (
        rb"(?:[aA]ccept(?:-[a-zA-Z]++)?+|[uU]ser-[aA]gent|[xX]-(?:[fF]orwarded|[eE]nvoy)-[a-zA-Z\-]++):"
        + value
    )
    told = [
        rb"(?(%d)(?!))%b: ?(%b)" % (group, _any_case(name), spelling)
        for group, (name, spelling) in enumerate(TOLD.items(), 2)
    ]
    kept_open = rb"[cC]onnection: [kK]eep-[aA]live"
    others = rb"(?!(?:%b):)%b++:%b" % (b"|".join(map(_any_case, (*TOLD, *SPECIAL))), token, value)
    line = b"|".join([usual, *told, kept_open, others])
    return re.compile(rb"POST (/[!-~]*+) HTTP/1\.1\r\n(?:(?:%b)\r\n){1,%d}+\r\n" % (line, MOST_FIELDS))


ORDINARY: "Callable[[bytes], re.Match[bytes] | None]" = _pattern().match
LENGTH_GROUP = 2 + [*TOLD].index(b"content-length")


class Head:
    """What an ordinary head tells."""

    __slots__ = (
        "after", "api_key", "authorization", "before", "generation", "host", "identity", "length", "request_id",
        "traceparent", "tracestate", "url",
    )  # fmt: skip

    def __init__(
        self,
        url: bytes,
        host: bytes | None,
        length: bytes | None,
        kind: bytes | None,
        authorization: bytes | None,
        api_key: bytes | None,
        request_id: bytes | None,
        traceparent: bytes | None,
        tracestate: bytes | None,
    ) -> None:
        """As the groups of the pattern have it."""
        self.url = url
        self.host = host
        self.length = length if kind is not None and host is not None else None  # None: it goes the long way
        self.authorization = authorization
        self.api_key = api_key
        self.request_id = request_id
        self.traceparent = traceparent
        self.tracestate = tracestate
        # Who asks, once the application has found out, and the generation of credentials that this is true of.
        self.identity: Identity | None = None
        self.generation = -1
        # The bytes up to the length of the body, and from there on: the next head may be the same.
        self.before = self.after = b""

    @property
    def headers(self) -> Headers:
        """The same as llhttp would have told it, without what does not matter."""
        values = (
            self.host, self.length, TOLD[b"content-type"], self.authorization, self.api_key, self.request_id,
            self.traceparent, self.tracestate,
        )  # fmt: skip
        return {name: value for name, value in zip(TOLD, values, strict=True) if value is not None}

    @property
    def credentials(self) -> Headers:
        if self.authorization is None:
            return NO_HEADERS if self.api_key is None else {b"x-api-key": self.api_key}
        if self.api_key is None:
            return {b"authorization": self.authorization}
        return {b"authorization": self.authorization, b"x-api-key": self.api_key}
