"""The ids of requests and tasks: 128 random bits each, so that nobody can guess one from another. Each gateway and
each data plane (`roles`) takes its ids here.

Where nobody is asked who they are, an id is all that keeps a client from a stranger's result. The kernel is asked
for the bits of many ids at once, so that one id costs less than counting and formatting a number.
"""

import os
from collections.abc import Iterator
from itertools import chain, repeat

BYTES = 16  # the length of an id, before it is written in hexadecimal
AT_ONCE = 256  # ids for which the kernel is asked at once


def random_ids() -> Iterator[str]:
    """Ids without end, each of 32 hexadecimal digits."""
    return chain.from_iterable(map(_some, repeat(AT_ONCE)))


def _some(many: int) -> list[str]:
    """Ask the kernel for so many ids."""
    return os.urandom(BYTES * many).hex(" ", BYTES).split(" ")
