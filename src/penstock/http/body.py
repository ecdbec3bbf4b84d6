"""Reading a body without trusting it: its size is known before it is read, and its time is limited (SPEC A7)."""

import asyncio
from typing import Protocol

from granian._granian import RSGIProtocolClosed

from penstock.errors import BodyTooSlow, Malformed, TooLarge, UnsupportedMedia
from penstock.http.rsgi import Exchange, RequestHeaders
from penstock.ports import Gateway


class BodyLimits(Protocol):
    @property
    def max_body(self) -> int: ...

    @property
    def body_seconds(self) -> float: ...


class Reading:
    """A body on its way: `await reading.pending`, within its time. One entry on a shared wheel, no timer."""

    __slots__ = ("cut", "pending", "when")

    def __init__(self, pending: "asyncio.Future[bytes]", when: float) -> None:
        self.pending = pending
        self.when = when
        self.cut = False

    @property
    def settled(self) -> bool:
        return self.pending.done()

    def expire(self) -> None:
        self.cut = True
        self.pending.cancel()

    def broken(self, exc: BaseException) -> BaseException:
        """What it means that waiting for `pending` ended with this."""
        if isinstance(exc, RSGIProtocolClosed):
            return Malformed("the body ended before its Content-Length")
        return BodyTooSlow("the body did not arrive in time") if self.cut else exc


def start_reading(
    headers: RequestHeaders, exchange: Exchange, gateway: Gateway, limits: BodyLimits
) -> Reading:
    """Refuse what need not be read; begin to read the rest, within its limits."""
    _check_type(headers)
    declared = headers.get("content-length")
    if declared is None:
        counted = _read_counting(exchange, limits.max_body, "transfer-encoding" in headers)
        pending: asyncio.Future[bytes] = asyncio.ensure_future(counted)
    else:
        _check_length(declared, limits.max_body)
        pending = exchange()
    reading = Reading(pending, gateway.clock() + limits.body_seconds)
    gateway.limit(reading)
    return reading


def _check_type(headers: RequestHeaders) -> None:
    kind = headers.get("content-type")
    if kind != "application/json" and kind is not None:
        name, _, parameter = kind.partition(";")
        charset = parameter.strip().lower().replace('"', "")
        if name.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise UnsupportedMedia("send application/json in UTF-8")
    if headers.get("content-encoding", "identity") != "identity":
        raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")


def _check_length(declared: str, limit: int) -> None:
    if not (declared.isascii() and declared.isdigit()):
        raise Malformed("Content-Length is not a number")
    if len(declared) > 18 or int(declared) > limit:
        raise TooLarge(f"the body is {declared[:20]} bytes, and at most {limit} are accepted")


async def _read_counting(exchange: Exchange, limit: int, chunked: bool) -> bytes:
    """A body of unknown length: never hold more than the limit.

    Granian ends a body with one empty chunk, and tells of a broken one (or of trailers, which nobody needs) only
    by another before it: without this, half a body that happens to be JSON would be executed.
    """
    chunks: list[bytes] = []
    size = 0
    ended = False
    async for chunk in exchange:
        if ended and chunked:
            raise Malformed("the chunked body is broken off, malformed, or has trailers")
        ended = not chunk
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the body is longer than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
