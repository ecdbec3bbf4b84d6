"""Finds clients that left while nothing is read from them: the event loop reports a closed connection only when it
reads.

The kernel is asked whether the other side has closed its end, even if unread bytes lie before that. One system call
asks for many connections and does not wait, so it is made on the event loop. A connection asks before it goes on
with what its client had sent; `edge.py` asks for all connections, each tick and at the end.
"""

import asyncio
import select
from collections.abc import Iterable
from typing import Protocol, TypeVar

# Linux has this flag. On another system such a client is noticed when we write to it.
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
    """Returns those whose clients have sent bytes that are not read yet."""
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
