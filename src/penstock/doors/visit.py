"""A request that need not be fast: what it asks for, taken apart."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple
from urllib.parse import parse_qs, unquote_to_bytes

from penstock.edge.caller import Caller
from penstock.edge.heads import Headers
from penstock.errors import Malformed, Unacceptable


class Visit(NamedTuple):
    path: str
    query: str
    headers: Headers
    body: bytes


Handler = Callable[[Caller, Visit], Awaitable[None]]


def split(url: bytes) -> tuple[str, str]:
    """Path and query; a proxy may ask for the whole address."""
    if not url.startswith(b"/"):
        _, _, address = url.partition(b"://")
        url = b"/" + address.partition(b"/")[2]
    path, _, query = url.partition(b"?")
    try:
        return unquote_to_bytes(path).decode(), query.decode("ascii")
    except UnicodeDecodeError:
        raise Malformed("the address is not in UTF-8") from None


def read_query(text: str, *known: str) -> dict[str, str]:
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
    """What a client says in `Prefer` (RFC 7240): True, a task; False, it waits for the answer; None, neither."""
    said = headers.get(b"prefer")
    if said is None:
        return None
    words = {part.partition(b";")[0].partition(b"=")[0].strip() for part in said.lower().split(b",")}
    if b"respond-async" in words:
        return True
    return False if b"wait" in words else None
