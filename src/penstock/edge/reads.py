"""Decides which connection is read from next, of those with large bodies, new ones, and refused ones that still
send. Each edge has one, in which its connections of HTTP/1.1 wait for their turn.

The event loop reads in one turn from every socket that has something. With a thousand uploads that is a hundred
megabytes, while all others wait. So a connection with a large body is read from once, and then again when more has
come and it is its turn. New connections, and refused ones that still send, are treated in the same way. In one turn
of the loop a bounded number of bytes is read from all of them together. New connections come first, and from each
only as much is read as a head or a small body needs. Then tenants take turns, so that none waits for all that
another sends. In a crowd of large bodies the loop does something else for as long as it has read from them: a
process that never waits has to wait for its processor, and so does whoever asks it something.

epoll tells which connections have sent something. If we read from those that have not, all of them would be read
from when they send at the same moment. The bytes are read from the socket and not by the transport, which would
take up to 256 KB from each. With TLS only the transport can read, so one turn of the loop goes on with one such
connection.
"""

import asyncio
import select
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from penstock.edge.bounds import State
from penstock.ports import Clock

AT_ONCE = 256 * 1024  # bytes that are read in one turn
NEW_AT_ONCE = 16  # new connections that are read from in one turn
FIRST_WORDS = 8 * 1024  # bytes that are read from a new connection in its first turn
PIECE = 64 * 1024  # bytes of one large body in its turn, if several wait
# A read counts for at least so many bytes, however little it brings, because to end a connection takes time too.
LEAST = 32 * 1024


class Sender(Protocol):
    """A connection whose client sends, and that is read from only when it has its turn."""

    state: int
    holder: str  # a tenant, or STRANGERS

    def hear(self, most: int) -> int:
        """Read up to so many bytes of what has come. Returns how many it was or, with TLS, may be."""
        ...


class Reads:
    """The connections of one edge that wait to be read from."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        bare: bool,
        crowded: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        """`bare`: there is no TLS, so that unread bytes are in the socket. The transport of TLS may have taken them
        out already. `crowded`: whether large bodies have half of the loop's time at most."""
        self._loop = loop
        self._crowded = crowded
        self._clock = clock or loop.time
        self._bare = bare
        self._kernel: select.epoll | None = None
        self._watched: dict[int, Sender] = {}  # connections by descriptor: those that the kernel watches
        # Connections that have sent something and wait for their turn: new ones in their order, and those with
        # large bodies by their holders.
        self._new: deque[Sender] = deque()
        self._large: dict[str, deque[Sender]] = {}
        self._due: asyncio.Handle | None = None
        self._rested = 0.0  # when the large bodies may be read from again

    def open(self) -> None:
        """Begin to watch. Must be called before the first connection, because it takes a descriptor."""
        if self._bare and hasattr(select, "epoll"):  # only Linux has epoll
            self._kernel = select.epoll()
            self._loop.add_reader(self._kernel.fileno(), self._more_has_come)

    def can_watch(self, descriptor: int) -> bool:
        return self._kernel is not None and descriptor >= 0

    def wait(self, sender: Sender, descriptor: int) -> None:
        """Let `sender` wait until more has come, and then for its turn. If we cannot know whether more has come, it
        waits for its turn only."""
        if self._kernel is None or descriptor < 0:
            self._line_up(sender)
            return
        change = self._kernel.modify if descriptor in self._watched else self._kernel.register
        change(descriptor, select.EPOLLIN | select.EPOLLONESHOT)
        self._watched[descriptor] = sender

    def forget(self, descriptor: int) -> None:
        """Forget a lost connection: the next one may have the same descriptor."""
        if self._watched.pop(descriptor, None) is not None and self._kernel is not None:
            with suppress(OSError):  # the descriptor is closed already
                self._kernel.unregister(descriptor)

    def close(self) -> None:
        if self._kernel is not None:
            self._loop.remove_reader(self._kernel.fileno())
            self._kernel.close()
            self._kernel = None

    def _more_has_come(self) -> None:
        assert self._kernel is not None
        for descriptor, _ in self._kernel.poll(0):
            self._line_up(self._watched[descriptor])

    def _line_up(self, sender: Sender) -> None:
        if sender.state == State.NEW:
            self._new.append(sender)
        else:
            self._large.setdefault(sender.holder, deque()).append(sender)
        self._come_back()

    def _come_back(self) -> None:
        if not self._new and not self._large:
            return
        pause = 0.0 if self._new else self._rested - self._clock()
        if self._due is not None:
            if pause > 0 or not isinstance(self._due, asyncio.TimerHandle):
                return
            self._due.cancel()
        if pause > 0:
            self._due = self._loop.call_later(pause, self._take)
        else:
            self._due = self._loop.call_soon(self._take)

    def _take(self) -> None:
        self._due = None
        left = AT_ONCE
        try:
            for _ in range(min(NEW_AT_ONCE, len(self._new))):
                left -= self._new.popleft().hear(FIRST_WORDS)
            began = self._clock()
            if began >= self._rested:
                self._take_large(left)
                if self._crowded():
                    ended = self._clock()
                    self._rested = ended + (ended - began)
        finally:
            self._come_back()

    def _take_large(self, left: int) -> None:
        while self._large and left > 0:
            sender = self._next_large()
            left -= max(LEAST, sender.hear(min(left, PIECE) if self._large else left))

    def _next_large(self) -> Sender:
        holder = next(iter(self._large))
        line = self._large.pop(holder)
        sender = line.popleft()
        if line:
            self._large[holder] = line  # this holder gets in line behind the others
        return sender
