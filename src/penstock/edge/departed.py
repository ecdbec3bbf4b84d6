"""Clients that left while nothing is read from them: a closed connection shows itself only to those who read.

The kernel knows: it is asked whether the other side has shut its end, whatever lies unread before that.
That is one call of the system, which does not wait, so it is made on the event loop: by a connection before it goes
on with what its client had sent, and by `edge` for all of them, each tick and at the end.
"""

import asyncio
import select
from collections.abc import Iterable
from typing import Protocol, TypeVar

# Linux has it; elsewhere such a client is noticed when it is written to.
GONE = getattr(select, "POLLRDHUP", 0)
NOT_READ = select.POLLIN


class Deaf(Protocol):
    """A connection while nothing is read from it."""

    @property
    def descriptor(self) -> int:
        """The file descriptor of its socket; -1 where there is none."""
        ...

    def abort(self) -> None: ...


Some = TypeVar("Some", bound=Deaf)


def descriptor_of(transport: asyncio.Transport | None) -> int:
    socket = None if transport is None else transport.get_extra_info("socket")
    return -1 if socket is None else int(socket.fileno())


def has_left(one: Deaf) -> bool:
    return bool(those_who_left((one,)))


def those_who_left(some: Iterable[Some]) -> list[Some]:
    return _asked(some, GONE) if GONE else []


def those_with_words(some: Iterable[Some]) -> list[Some]:
    """Whose bytes have come, and have not been read."""
    return _asked(some, NOT_READ)


def _asked(some: Iterable[Some], events: int) -> list[Some]:
    poll = select.poll()
    by_descriptor = {}
    for one in some:
        descriptor = one.descriptor
        if descriptor >= 0:
            poll.register(descriptor, events)
            by_descriptor[descriptor] = one
    return [by_descriptor[found] for found, _ in poll.poll(0)] if by_descriptor else []
