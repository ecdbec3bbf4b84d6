"""Reads what a request says besides its path and body: the query, the Content-Type, and Prefer. Used by
`data_plane.py` and `results.py`. Pure: it raises a refusal for what cannot be accepted.
"""

from urllib.parse import parse_qs

from penstock.edge.fields import Headers
from penstock.errors import Malformed, Unacceptable, UnsupportedMedia


def read_query(text: str, *known: str) -> dict[str, str]:
    """Returns the parameters of a query. Refuses one that is not `known` here, or is given twice."""
    try:
        pairs = parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), max_num_fields=16)
    except ValueError:
        raise Malformed("the query is not well formed") from None
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


def check_type(headers: Headers) -> None:
    """Refuses a request whose head says that the body is not JSON in UTF-8, or is compressed. A head that says
    nothing is accepted."""
    kind = headers.get(b"content-type")
    if kind != b"application/json" and kind is not None:
        name, _, parameter = kind.lower().partition(b";")
        charset = parameter.strip().replace(b'"', b"")
        if name.strip() != b"application/json" or charset not in (b"", b"charset=utf-8"):
            raise UnsupportedMedia("send application/json in UTF-8")
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")
