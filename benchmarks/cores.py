"""Cores of their own for what is measured and for what measures, by the affinity that processes inherit.
`before_after` and `gpu` start their servers and their load within it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pinned(cores: set[int] | None) -> Iterator[None]:
    """Processes that are started meanwhile keep to these cores."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
