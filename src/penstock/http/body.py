"""Reading a body without trusting it: its size is known before it is read, and its time is limited (SPEC A7)."""

import asyncio
from collections.abc import Callable

from granian._granian import RSGIProtocolClosed

from penstock.errors import BodyTooSlow, Malformed, Refused, TooLarge, UnsupportedMedia
from penstock.http.rsgi import Exchange, RequestHeaders


class Bodies:
    """Bodies on their way, each within its limits of size and time.

    They are kept in the order they began, so the one timer looks only at the first: a body that arrives in time,
    as nearly all do, costs an entry in a dictionary and no timer.
    """

    __slots__ = ("_clock", "_limit", "_pending", "_seconds", "_timer")

    def __init__(self, clock: Callable[[], float], limit: int, seconds: float) -> None:
        self._clock = clock
        self._limit = limit
        self._seconds = seconds
        self._pending: dict[asyncio.Future[bytes], float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def start(self, headers: RequestHeaders, exchange: Exchange) -> "asyncio.Future[bytes]":
        """Refuse what need not be read; begin to read the rest. `done` or `broken` must follow."""
        kind = headers.get("content-type")
        if kind != "application/json" and kind is not None:
            _check_type(kind)
        if headers.get("content-encoding", "identity") != "identity":
            raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")
        declared = headers.get("content-length")
        if declared is None:
            counted = _read_counting(exchange, self._limit, "transfer-encoding" in headers)
            pending: asyncio.Future[bytes] = asyncio.ensure_future(counted)
        else:
            _check_length(declared, self._limit)
            pending = exchange()
        self._pending[pending] = self._clock() + self._seconds
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._cut)
        return pending

    def done(self, pending: "asyncio.Future[bytes]") -> None:
        self._pending.pop(
            pending, None
        )  # gone already if it came in the very turn that would have cut it off

    def broken(self, pending: "asyncio.Future[bytes]", exc: BaseException) -> Refused | None:
        """What to tell the client when waiting for its body ended with this; None if that was not its doing."""
        cut = self._pending.pop(pending, None) is None
        if isinstance(exc, Refused):
            return exc
        if isinstance(exc, RSGIProtocolClosed):
            return Malformed("the body ended before its Content-Length")
        return BodyTooSlow(f"the body did not arrive within {self._seconds:g} s") if cut else None

    def _cut(self) -> None:
        """Cut off those whose time is over, and look again when that of the first one left will be."""
        self._timer = None
        now = self._clock()
        while self._pending:
            pending, when = next(iter(self._pending.items()))
            if when > now:
                self._timer = asyncio.get_running_loop().call_later(when - now + 0.001, self._cut)
                return
            del self._pending[pending]
            pending.cancel()


def _check_type(kind: str) -> None:
    name, _, parameter = kind.partition(";")
    charset = parameter.strip().lower().replace('"', "")
    if name.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise UnsupportedMedia("send application/json in UTF-8")


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
