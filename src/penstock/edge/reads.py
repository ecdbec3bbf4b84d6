"""Who is read from next, of those who can send much at the same moment as many others.

The loop reads in one turn from every socket that has something: with a thousand uploads that is a hundred megabytes
while all others wait. So a connection with a large body on its way is read from once, and then not until more has
come and it is its turn. The same goes for connections that have said nothing since they were accepted, and for
those that were refused and still send. A turn of the loop takes so many bytes from all of them together. The new
ones come first, and of each only as much as a head or a small body needs. Then tenants take turns, and nobody waits
for all that another one sends. In a crowd of large bodies, the loop does something else for as long as it has read
from them: a process that never waits has to wait for its processor, with whoever asks it something.

The kernel says who has sent something. To read from those who have not would mean that they all are read from when
they send at the same moment. What has come is read from the socket, and not by the transport, which would take up
to 256 KB of each. With TLS only the transport can read, and a turn goes on with one of them.
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
FIRST_WORDS = 8 * 1024  # bytes that a new one may say then
PIECE = 64 * 1024  # bytes of one large body, where several wait
LEAST = (
    32 * 1024
)  # bytes that a read counts for, however little it brings: to end a connection takes time too


class Sender(Protocol):
    """A connection that is not read from."""

    state: int
    holder: str  # a tenant, or STRANGERS

    def hear(self, most: int) -> int:
        """Read so many bytes of what has come. Gives how many it was, or may be."""
        ...


class Reads:
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        *,
        bare: bool,
        crowded: Callable[[], bool] = lambda: False,
        clock: Clock | None = None,
    ) -> None:
        """`bare`: what has come lies in the socket. With TLS the transport may have taken it out already.
        `crowded`: whether large bodies have half of the loop's time at most."""
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
        """Open the watch. To be called before the first connection, so that the descriptor it takes is there from
        the start."""
        if self._bare and hasattr(select, "epoll"):  # Linux has it
            self._kernel = select.epoll()
            self._loop.add_reader(self._kernel.fileno(), self._more_has_come)

    def can_watch(self, descriptor: int) -> bool:
        return self._kernel is not None and descriptor >= 0

    def wait(self, sender: Sender, descriptor: int) -> None:
        """Let `sender` wait until more has come, and for its turn. Where it cannot be known what has come, it
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
