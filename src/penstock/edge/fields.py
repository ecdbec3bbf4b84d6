"""The one list of all header fields of a request that any part of Penstock looks at. The edge reads these of an
ordinary head (`heads.py`); the doors and tracing ask for some by the functions below.

Most requests have an ordinary head, which one pattern reads (`heads.py`). The pattern finds the fields that have an
ordinary spelling in this list, and ignores all others. If one of these fields is spelt differently, or if the head
has a field that is never ordinary, the head goes the long way: llhttp reads every field.

Code that looks at one more field needs a line here; a test fails if it is missing.
"""

import re
from typing import NamedTuple

Headers = dict[bytes, bytes]
NO_HEADERS: Headers = {}

_CREDENTIAL = rb"[!-~]++"
_HEX = rb"[0-9a-f]"
_REQUEST_ID = rb"[A-Za-z0-9._:+=@\-]{1,128}+"
_TRACESTATE = rb"[!-~](?: ?[!-~]){0,511}+"
_TRACEPARENT = _HEX + rb"{2}+-" + _HEX + rb"{32}+-" + _HEX + rb"{16}+-" + _HEX + rb"{2}+"


class Field(NamedTuple):
    """What one field means, and how it is spelt in most requests."""

    means: str
    # How the field is spelt in an ordinary head; None: a head that has it is never ordinary.
    ordinary: bytes | None
    otherwise: str  # what happens to the field on the long way


FIELDS: dict[bytes, Field] = {
    b"host": Field("which server is meant", rb"[!-+\--~]++", "refused if there is none, or more than one"),
    b"content-length": Field("bytes of the body", rb"[0-9]{1,9}+", "refused if it is no number, or too large"),
    b"content-type": Field("what the body is", rb"application/json", "refused unless it is read here"),
    b"authorization": Field("who asks", rb"Bearer " + _CREDENTIAL, "read in any case, refused if it is not known"),
    b"x-api-key": Field("who asks", _CREDENTIAL, "read without spaces, and refused if it is not known"),
    b"x-request-id": Field("the client's name for the request", _REQUEST_ID, "replaced by an id of ours"),
    b"traceparent": Field("the trace it belongs to", _TRACEPARENT, "left out, unless a later version of it"),
    b"tracestate": Field("what others say of that trace", _TRACESTATE, "left out if too long or without a trace"),
    b"transfer-encoding": Field("how the body comes", None, "chunked is read, all else refused"),
    b"expect": Field("whether to go on with the body", None, "told to go on, or refused before it"),
    b"upgrade": Field("another protocol is wished for", None, "passed over, but for WebSocket at its door"),
    b"sec-websocket-key": Field("proof that WebSocket is meant", None, "answered by a door that speaks it"),
    b"sec-websocket-version": Field("which WebSocket", None, "refused by such a door unless it is 13"),
    b"sec-websocket-protocol": Field("subprotocols, and perhaps who asks", None, "read by such a door"),
    b"connection": Field("whether the connection stays open", None, "closed after the answer where it says so"),
    b"content-encoding": Field("how the body is packed", None, "refused unless it is identity"),
    b"accept": Field("which form the answer should have", None, "bytes or MessagePack, where a door has them"),
    b"prefer": Field("whether the answer is waited for", None, "read where a door has tasks"),
    b"idempotency-key": Field("the client's name for all tries of it", None, "the first outcome is given again"),
    b"last-event-id": Field("the last event that a page has seen", None, "compared with that of an end"),
    b"inference-header-content-length": Field("bytes of the body that are JSON", None, "tensors follow them"),
    b"origin": Field("the web page that asks", None, "compared with server.cors_origins"),
    b"access-control-request-method": Field("what a web page is about to ask", None, "answered by `doors.cors`"),
    b"access-control-request-headers": Field("what it is about to send", None, "allowed if these are names"),
}  # fmt: skip

# The fields that the pattern tells of, in its order, and how each is spelt in an ordinary head.
TOLD: dict[bytes, bytes] = {
    name: field.ordinary for name, field in FIELDS.items() if field.ordinary is not None
}
SPECIAL = tuple(name for name, field in FIELDS.items() if field.ordinary is None)

_IS_REQUEST_ID = re.compile(_REQUEST_ID)
_IS_TRACESTATE = re.compile(rb"[!-~](?:[ -~]{0,510}[!-~])?")
_IS_TRACEPARENT = re.compile(_TRACEPARENT + rb"(-[ -~]{0,256})?")


def request_id(headers: Headers) -> str | None:
    """Returns the client's own request id, if it can be put into headers, logs and JSON as it is."""
    given = headers.get(b"x-request-id")
    return given.decode() if given is not None and _IS_REQUEST_ID.fullmatch(given) else None


def trace(headers: Headers) -> tuple[str | None, str | None]:
    """Returns the request's traceparent and tracestate, as far as they are well-formed."""
    parent, state = trace_in_bytes(headers)
    return None if parent is None else parent.decode(), None if state is None else state.decode()


def trace_in_bytes(headers: Headers) -> tuple[bytes | None, bytes | None]:
    """Returns the same as it was written."""
    return well_formed(headers.get(b"traceparent"), headers.get(b"tracestate"))


def well_formed(parent: bytes | None, state: bytes | None) -> tuple[bytes | None, bytes | None]:
    """Returns a traceparent and a tracestate, or None for each that is not well-formed. The second means nothing
    without the first."""
    if parent is None or not _IS_TRACEPARENT.fullmatch(parent):
        return None, None
    return parent, state if state is not None and _IS_TRACESTATE.fullmatch(state) else None
