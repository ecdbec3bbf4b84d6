"""What stands beside the path of a request: its query, what its body is said to be, what its client prefers.

For `data_plane` and `results`, which is where people fetch the answers of tasks. Pure: what cannot be accepted is
raised, as an error with a status.
"""

from enum import Enum
from urllib.parse import parse_qs

from penstock.edge.fields import Headers
from penstock.errors import Malformed, Unacceptable, UnsupportedMedia


def read_query(text: str, *known: str) -> dict[str, str]:
    """The parameters of a query. One that is not `known` here is refused, and one that is given twice."""
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
    """What a client says in `Prefer` (RFC 7240): True, a task; False, it waits for the answer; None, neither."""
    said = headers.get(b"prefer")
    if said is None:
        return None
    words = {part.partition(b";")[0].partition(b"=")[0].strip() for part in said.lower().split(b",")}
    if b"respond-async" in words:
        return True
    return False if b"wait" in words else None


class Media(Enum):
    """What a body is, or an answer."""

    JSON = "application/json"
    OCTETS = "application/octet-stream"
    MSGPACK = "application/msgpack"


_NAMES = {
    **{media.value.encode(): media for media in Media},
    b"application/x-msgpack": Media.MSGPACK,
    b"application/vnd.msgpack": Media.MSGPACK,
}


def media_of(headers: Headers, others: bool = False) -> Media:
    """What the body is said to be; JSON, if nothing is said. Refuses what is compressed, and what is not read here:
    anything but JSON in UTF-8, or if there are `others`, but these."""
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
    """What the client wants the answer to be: the first in `Accept` that there is, whatever its weight; JSON, if
    there is none."""
    said = headers.get(b"accept")
    if said is not None:
        for part in said.lower().split(b","):
            name, _, weight = part.partition(b";")
            found = _NAMES.get(name.strip())
            if found is not None and weight.strip() not in (b"q=0", b"q=0.0"):
                return found
    return Media.JSON
