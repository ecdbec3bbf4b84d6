"""Reads what a request says besides its path and body: the query, Content-Type, Accept and Prefer. The data plane
and the doors ask it about each request. Pure: it raises a refusal for what cannot be accepted."""

from enum import Enum
from urllib.parse import parse_qs

from penstock.edge.fields import Headers
from penstock.errors import Malformed, Unacceptable, UnsupportedMedia


def read_query(text: str, *known: str) -> dict[str, str]:
    """Returns the parameters of a query. Refuses one that is not `known` here, or is given twice."""
    try:
        pairs = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=16)
    except ValueError:
        raise Malformed("the query cannot be read: write it as ?name=value&name=value") from None
    for name, values in pairs.items():
        if name not in known:
            raise Unacceptable(f"unknown query parameter {name[:50]!r}; known here: {', '.join(known)}")
        if len(values) > 1:
            raise Unacceptable(f"the query parameter {name!r} is given more than once")
    return {name: values[0] for name, values in pairs.items()}


def prefers_task(headers: Headers) -> bool | None:
    """Returns what a client says in `Prefer` (RFC 7240): True for a task, False if it waits for the answer, None if
    it says neither."""
    said = headers.get(b"prefer")
    if said is None:
        return None
    words = {part.partition(b";")[0].partition(b"=")[0].strip() for part in said.lower().split(b",")}
    if b"respond-async" in words:
        return True
    return False if b"wait" in words else None


class Media(Enum):
    """The forms of a body or an answer."""

    JSON = "application/json"
    OCTETS = "application/octet-stream"
    MSGPACK = "application/msgpack"


_NAMES = {
    **{media.value.encode(): media for media in Media},
    b"application/x-msgpack": Media.MSGPACK,
    b"application/vnd.msgpack": Media.MSGPACK,
}


def media_of(headers: Headers, others: bool = False) -> Media:
    """Returns the form that the head gives for the body; JSON if it gives none. Refuses a compressed body, and any
    form but JSON in UTF-8. `others`: the forms other than JSON are accepted too."""
    kind, media = headers.get(b"content-type"), Media.JSON
    if kind != b"application/json" and kind is not None:
        name, _, parameter = kind.lower().partition(b";")
        charset = parameter.strip().replace(b'"', b"")
        found = _NAMES.get(name.strip())
        if found is None or (found is not Media.JSON and not others):
            also = ", application/octet-stream or application/msgpack" if others else ""
            raise UnsupportedMedia(f"send application/json in UTF-8{also}")
        if found is Media.JSON and charset not in (b"", b"charset=utf-8"):
            raise UnsupportedMedia("send application/json in UTF-8")
        media = found
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")
    return media


def wanted(headers: Headers) -> Media:
    """Returns the form that the client wants for the answer: the first in `Accept` that we can make, whatever its
    weight; JSON if there is none."""
    said = headers.get(b"accept")
    if said is not None:
        for part in said.lower().split(b","):
            name, _, weight = part.partition(b";")
            found = _NAMES.get(name.strip())
            if found is not None and weight.strip() not in (b"q=0", b"q=0.0"):
                return found
    return Media.JSON
