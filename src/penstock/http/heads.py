"""Heads that were read before: a client says the same in every request, but for the length of its body.

Reading a head is a pure function of its bytes. So one that llhttp has read, and the edge has found in order, need
not be read again: the same bytes with another Content-Length mean the same headers with another Content-Length.
Whatever is out of the ordinary (chunks, `Expect`, `Connection`, HTTP/1.0, a body in several pieces, two requests
in one) is never kept here, and goes the long way each time.
"""

from dataclasses import dataclass

from penstock.types import Identity

Headers = dict[bytes, bytes]
NO_HEADERS: Headers = {}

LENGTH = b"\r\nContent-Length: "  # as all but a few clients spell it
LENGTH_SIZE = len(LENGTH)
END = b"\r\n\r\n"
LONGEST = 2048  # bytes of a head worth keeping
MOST = 4096  # heads; one more, and all are forgotten: those in use are soon back
# What changes how a request is read; and what is new in each, so that its head will not be seen again.
SPECIAL = frozenset(
    {b"transfer-encoding", b"expect", b"upgrade"} | {b"x-request-id", b"traceparent", b"idempotency-key"}
)


@dataclass(slots=True)
class Head:
    method: bytes
    url: bytes
    headers: Headers  # never changed; its Content-Length is that of the request it was learned from
    plain: bool | None = (
        None  # what the application has found out: whether there is nothing to it but who asks,
    )
    identity: Identity | None = None  # who that is,
    generation: int = -1  # and of when it knows that
    # As it came, up to the length of the body and from there on, once a connection has brought it twice in a row.
    before: bytes = b""
    after: bytes = b""


class Heads:
    """All that are known, by their bytes without the length."""

    __slots__ = ("_known", "find")

    def __init__(self) -> None:
        self._known: dict[bytes, Head] = {}
        self.find = self._known.get

    def __len__(self) -> int:
        return len(self._known)

    def learn(self, data: bytes, method: bytes, url: bytes, headers: Headers, body: bytes) -> None:
        """`data` came between two requests, and llhttp made the rest of it, after which the connection stays open.

        It must have been this one request and no more, by the lengths: a head that ends elsewhere for llhttp than
        for us would be a way to smuggle a request past it.
        """
        if method != b"POST" or not SPECIAL.isdisjoint(headers):
            return
        end = data.find(END)
        start = data.find(LENGTH, 0, end) + LENGTH_SIZE
        stop = data.find(b"\r\n", start)
        length = b"%d" % len(body)
        if (
            LENGTH_SIZE <= start < stop <= end <= LONGEST
            and end + len(END) + len(body) == len(data)
            and data[start:stop] == length == headers.get(b"content-length")
        ):
            if len(self._known) >= MOST:
                self._known.clear()
            self._known[data[:start] + data[stop:end]] = Head(method, url, headers)
