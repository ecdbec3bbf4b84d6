"""Reads the heads of ordinary requests with one pattern. A connection of HTTP/1.1 tries it first with each request,
and hands the `Head` to its plane.

llhttp can read any head, and calls us back for each field. But nearly every request is a POST with a body of a
given length, and only a few fields of its head matter (`fields.py`). One compiled pattern runs over the whole head
and finds them, whatever the other fields are.

The pattern is strict. A head that it does not match goes the long way, through llhttp: one with a field that comes
twice or is spelt oddly, a field that is never ordinary, HTTP/1.0, a folded line, or a head that comes in several
pieces. `tests/edge/test_edge_heads.py` checks that both ways read a head alike.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from penstock.edge.fields import NO_HEADERS, SPECIAL, TOLD, Headers

POST = b"POST"
MOST_FIELDS = 100  # fields in a head; one with more goes the long way, where it is refused
NEEDED = (b"host", b"content-length", b"content-type")


def _any_of(patterns: "Sequence[tuple[bytes, bytes]]") -> bytes:
    """Any of these patterns: each a first letter, which may be of either case, and the rest. Patterns with the same
    first letter stand together, so that one look at a letter rules most of them out."""
    rests: dict[bytes, list[bytes]] = {}
    for first, rest in patterns:
        rests.setdefault(first, []).append(rest)
    return b"|".join(
        rb"[%b%b](?:%b)" % (first, first.upper(), b"|".join(rest)) for first, rest in rests.items()
    )


def _pattern() -> "re.Pattern[bytes]":
    """Returns the pattern. Its groups are the address, then the fields of `TOLD` in their order. A field that was
    found before cannot match again, nor can it match as one of the others."""
    token, value = rb"[!#-'*+\-.^_`|~0-9A-Za-z]", rb"[\t -~\x80-\xff]*+"
    # The beginnings of the most usual fields that do not matter. This list only saves time. It also saves time that
    # every alternative begins with a letter.
    usual = [
        (b"x", rb"-(?:[fF]orwarded|[eE]nvoy)-[a-zA-Z\-]++:" + value),
        (b"a", rb"ccept:(?:[ ,]|application/json|text/plain|\*/\*)*+"),  # what we answer without being asked
        (b"a", rb"ccept-[a-zA-Z]++:" + value),
        (b"u", rb"ser-[aA]gent:" + value),
    ]
    # The fields of `TOLD` stand first, and like letters beside each other, so that the groups are in their order.
    group = {name: number for number, name in enumerate(TOLD, 2)}
    told = [
        (name[:1], rb"(?i:%b)(?(%d)(?!)): ?+(%b)" % (re.escape(name[1:]), group[name], spelling))
        for name, spelling in TOLD.items()
    ]
    kept_open = (b"c", rb"onnection: [kK]eep-[aA]live")
    named = _any_of([(name[:1], rb"(?i:%b):" % re.escape(name[1:])) for name in (*TOLD, *SPECIAL)])
    others = rb"(?!%b)%b++:%b" % (named, token, value)
    line = _any_of([*told, *usual, kept_open]) + b"|" + others
    needed = b"".join(rb"(?(%d)|(?!))" % group[name] for name in NEEDED)
    return re.compile(
        rb"POST (/[!-~]*+) HTTP/1\.1\r\n(?:(?:%b)\r\n){1,%d}+\r\n%b" % (line, MOST_FIELDS, needed)
    )


ORDINARY: "Callable[[bytes], re.Match[Any] | None]" = _pattern().match


class Head(Struct, eq=False, gc=False):  # without gc, since no cycle can lead through bytes
    """The fields of an ordinary head: the groups of the pattern, in their order."""

    url: bytes
    host: bytes
    length: bytes
    kind: bytes  # the Content-Type
    authorization: bytes | None
    api_key: bytes | None
    request_id: bytes | None
    traceparent: bytes | None
    tracestate: bytes | None

    @property
    def headers(self) -> Headers:
        """The fields that matter, as llhttp would have read them."""
        values = (
            self.host, self.length, self.kind, self.authorization, self.api_key, self.request_id, self.traceparent,
            self.tracestate,
        )  # fmt: skip
        return {name: value for name, value in zip(TOLD, values, strict=True) if value is not None}

    @property
    def credentials(self) -> Headers:
        if self.authorization is None:
            return NO_HEADERS if self.api_key is None else {b"x-api-key": self.api_key}
        if self.api_key is None:
            return {b"authorization": self.authorization}
        return {b"authorization": self.authorization, b"x-api-key": self.api_key}
