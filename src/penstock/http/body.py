"""Reading a body without trusting it: its size is known before it is read, and its time is limited (SPEC A7)."""

import asyncio

from penstock.errors import BodyTooSlow, Malformed, TooLarge, UnsupportedMedia
from penstock.http.rsgi import Exchange, RequestHeaders
from penstock.ports import Gateway


class _Reading:
    """A body being read: cut off when its time is over. One entry on a shared wheel, no timer of its own."""

    __slots__ = ("_task", "cut")

    def __init__(self, task: "asyncio.Task[object] | None") -> None:
        self._task = task
        self.cut = False

    def done(self) -> None:
        self._task = None

    def expire(self) -> None:
        if self._task is not None:
            self.cut = True
            self._task.cancel()


async def read_json_body(
    headers: RequestHeaders, exchange: Exchange, gateway: Gateway, *, limit: int, seconds: float
) -> bytes:
    _check_type(headers)
    declared = headers.get("content-length")
    if declared is not None:
        _check_length(declared, limit)
    reading = _Reading(asyncio.current_task())
    gateway.expire_after(seconds, reading)
    try:
        if declared is not None:
            return await exchange()
        return await _read_counting(exchange, limit)
    except asyncio.CancelledError:
        if not reading.cut:
            raise
        task = asyncio.current_task()
        assert task is not None
        task.uncancel()
        raise BodyTooSlow(f"the body did not arrive within {seconds:g} s") from None
    finally:
        reading.done()


def _check_type(headers: RequestHeaders) -> None:
    kind = headers.get("content-type")
    if kind != "application/json" and kind is not None:
        name, _, parameter = kind.partition(";")
        charset = parameter.strip().lower().replace('"', "")
        if name.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
            raise UnsupportedMedia("send application/json in UTF-8")
    if "content-encoding" in headers and headers.get("content-encoding") != "identity":
        raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")


def _check_length(declared: str, limit: int) -> None:
    if not (declared.isascii() and declared.isdigit()):
        raise Malformed("Content-Length is not a number")
    if len(declared) > 18 or int(declared) > limit:
        raise TooLarge(f"the body is {declared[:20]} bytes, and at most {limit} are accepted")


async def _read_counting(exchange: Exchange, limit: int) -> bytes:
    """A body of unknown length: never hold more than the limit."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in exchange:
        size += len(chunk)
        if size > limit:
            raise TooLarge(f"the body is longer than {limit} bytes")
        chunks.append(chunk)
    return b"".join(chunks)
