"""Ports for servers that must be told theirs beforehand.

They are chosen now and bound later, by another process. So that no other run of the tests chooses the same in
between, each has a block of its own for as long as it lives. All lie below those that the system gives to outgoing
connections: a server that restarts must find its own free.
"""

import random
import socket
from contextlib import ExitStack
from functools import cache

FIRST, BLOCKS, SIZE = 10_000, 40, 250
BUS = 10_000  # the bus of a cluster's server has a port so much higher


def free_port() -> int:
    """One that a cluster's bus can have as well."""
    return _own().take(1, bus=True)


def free_ports(number: int) -> int:
    """The first of several in a row."""
    return _own().take(number)


class _Block:
    def __init__(self) -> None:
        self._held = socket.socket(socket.AF_UNIX)  # its name is taken until this process ends
        self._first = next(
            FIRST + block * SIZE for block in random.sample(range(BLOCKS), BLOCKS) if self._claimed(block)
        )
        self._given = 0  # of them; one that was used is not used again soon

    def _claimed(self, block: int) -> bool:
        try:
            self._held.bind(f"\0penstock-tests-{block}")
        except OSError:
            return False
        return True

    def take(self, number: int, *, bus: bool = False) -> int:
        while True:
            if self._given + number > SIZE:
                self._given = 0
            first = self._first + self._given
            self._given += number
            wanted = range(first, first + number)
            if _free([*wanted, *(port + BUS for port in wanted if bus)]):
                return first


@cache
def _own() -> _Block:
    return _Block()


def _free(ports: list[int]) -> bool:
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
