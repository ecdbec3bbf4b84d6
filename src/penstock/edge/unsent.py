"""Answers that their clients have not taken: sent in pieces, and counted together.

A large answer goes to the transport piece by piece, the next when there is room for it. So a client that stops
reading keeps one piece there and the rest here, whatever the transport: with TLS the transport would take all of it
and say nothing. One answer has no more than a few pieces in a turn of the loop, and one client in each turn.

What waits is counted with what all others have waiting (`held`): whoever has the most gives way. An answer counts
in full until its last piece has gone, since it is kept in full until then.
"""

import logging
from typing import TYPE_CHECKING, Protocol

from penstock.edge.held import STRANGERS

if TYPE_CHECKING:
    from penstock.edge.edge import Edge

PIECE = 64 * 1024  # bytes; a shorter answer is sent as it is
AT_ONCE = 4 * PIECE  # bytes of one answer in one turn

log = logging.getLogger("penstock.doors")  # lines of one kind are let through once a second


class Sender(Protocol):
    """A connection or a stream whose answer waits."""

    def push(self) -> None:
        """Send on, as far as it goes."""
        ...

    def abort(self) -> None: ...


class Unsent:
    __slots__ = ("_edge", "_sender", "full", "head", "held", "holder", "rest")

    def __init__(
        self, edge: "Edge", sender: Sender, tenant: str, rest: memoryview, size: int, head: bytes = b""
    ) -> None:
        """`head` and then `rest` have not been handed to the transport; `size` is what is kept for them, and may
        crowd others out."""
        self._edge = edge
        self._sender = sender
        self.full = False  # the transport takes no more
        self.head = head
        self.rest = rest
        self.held = 0
        self.holder = tenant if edge.keys else STRANGERS
        edge.unsent.change(self, size)

    def weigh(self, size: int) -> None:
        """Note that everything has been handed over, and that so much of it has not gone."""
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
        """Others have their turn first."""
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
