"""Decides which connection is read from next, of those with large bodies and of new ones. Used by `http1.py` and
`http1_reading.py`.

The event loop reads in one turn from every socket that has something. With a thousand uploads that is a hundred
megabytes, while all others wait. So a connection with a large body is read from once, and then again when more has
come and it is its turn. A new connection is read from for the first time in the same way. Each turn of the loop
reads from a few of them. Tenants take turns, so that none waits for all that another sends.

epoll tells which connections have sent something. If we read from those that have not, all of them would be read
from when they send at the same moment.
"""

import asyncio
import select
from collections import deque
from contextlib import suppress
from typing import Protocol

from penstock.edge.bounds import State

LARGE_AT_ONCE = 4  # connections with large bodies that are read from in one turn; a read brings up to 256 KB
NEW_AT_ONCE = 16  # new connections that are read from in one turn


class Sender(Protocol):
    """A connection that is not read from."""

    state: int
    holder: str  # a tenant, or STRANGERS

    def go_on(self) -> bool:
        """Read from the connection again."""
        ...


class Reads:
    """The connections of one edge that wait to be read from."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, bare: bool) -> None:
        """`bare`: there is no TLS, so that unread bytes are in the socket. The transport of TLS may have taken them
        out already."""
        self._loop = loop
        self._bare = bare
        self._kernel: select.epoll | None = None
        self._watched: dict[int, Sender] = {}  # connections by descriptor: those that the kernel watches
        # Connections that have sent something and wait for their turn: new ones in their order, and those with
        # large bodies by their holders.
        self._new: deque[Sender] = deque()
        self._large: dict[str, deque[Sender]] = {}
        self._due = False

    def open(self) -> None:
        """Begin to watch. Must be called before the first connection, because it takes a descriptor."""
        if self._bare and hasattr(select, "epoll"):  # Linux has it
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
        if (self._new or self._large) and not self._due:
            self._due = True
            self._loop.call_soon(self._take)

    def _take(self) -> None:
        self._due = False
        try:
            for _ in range(min(NEW_AT_ONCE, len(self._new))):
                self._new.popleft().go_on()
            for _ in range(min(LARGE_AT_ONCE, sum(map(len, self._large.values())))):
                self._next_large().go_on()
        finally:
            self._come_back()

    def _next_large(self) -> Sender:
        holder = next(iter(self._large))
        line = self._large.pop(holder)
        sender = line.popleft()
        if line:
            self._large[holder] = line  # this holder gets in line behind the others
        return sender
