"""Answers that their clients have not taken: they are sent in pieces, and counted together. Connections of HTTP/1.1
and HTTP/2 hand every large answer to it.

A large answer goes to the transport piece by piece, the next piece when there is room for it. So if a client stops
reading, the transport has one piece, and the rest is here and counted. A transport with TLS would otherwise take
all of it without telling us. Each turn of the loop sends a few pieces, for one client.

The bytes that wait are counted with those of all other clients (`held.py`), and the one that holds most gives way.
An answer counts in full until its last piece has gone, because all of it is kept until then.
"""

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.edge.held import STRANGERS

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

PIECE = 64 * 1024  # bytes; a shorter answer is sent as it is
AT_ONCE = 4 * PIECE  # bytes of one answer in one turn

log = logging.getLogger("penstock.doors")  # this logger lets lines of one kind through once a second


class Answering(Protocol):
    """A connection or a stream whose answer waits."""

    def push(self) -> None:
        """Send on, as far as it goes."""
        ...

    def abort(self) -> None: ...


class Unsent:
    """One answer that waits."""

    __slots__ = ("_edge", "_sender", "full", "head", "held", "holder", "rest")

    def __init__(
        self, edge: "Edge", sender: Answering, tenant: str, rest: memoryview, size: int, head: bytes = b""
    ) -> None:
        """`head` and then `rest`: what the transport does not have yet. `size`: the bytes that are kept for the
        answer; counting them may make another client give way."""
        self._edge = edge
        self._sender = sender
        self.full = False  # the transport takes no more
        self.head = head
        self.rest = rest
        self.held = 0
        self.holder = tenant if edge.keys else STRANGERS
        edge.unsent.change(self, size)

    def weigh(self, size: int) -> None:
        """Note that the transport has the whole answer, and that `size` bytes of it have not gone."""
        if self.held:
            self._edge.unsent.change(self, size)

    def next_piece(self) -> bytes | memoryview:
        """The next piece of the answer. Only the one with the head is a copy."""
        head, size = self.head, PIECE - len(self.head)
        piece, self.head, self.rest = self.rest[:size], b"", self.rest[size:]
        return b"".join((head, piece)) if head else piece

    def release(self) -> None:
        self.rest = memoryview(b"")
        if self.held:
            self._edge.unsent.change(self, 0)

    def wait(self) -> None:
        """Wait until it is this answer's turn again."""
        self._edge.sending.wait(self)

    def go_on(self) -> bool:
        if self.rest:
            self._sender.push()
        return False

    def crowded_out(self) -> None:
        log.warning(
            "a client that does not read its answers was cut off: they are more than limits.max_unsent_bytes",
            extra={"tenant": self.holder, "bytes": self.held, "limit": self._edge.unsent.most},
        )
        self.release()
        self._sender.abort()
