"""Hands that only tell how many workers there should be, because somebody else adds and removes them.
`roles/autoscaler.py` makes one."""

from collections.abc import Callable

from penstock.ports.scaling import LINE


class OnlyTold:
    """Implements `ports.scaling.Hand`. The number is read from the admin plane or the metrics."""

    async def present(self) -> int | None:
        return None

    async def scale(self, workers: int) -> None:
        """Does nothing."""

    async def close(self) -> None:
        """Does nothing."""


class Lines(OnlyTold):
    """Tells the supervisor that started this process, in a line of its own."""

    def __init__(self, present: int, write: Callable[[str], None]) -> None:
        """`present`: how many workers the supervisor has."""
        self._number, self._write = present, write

    async def present(self) -> int | None:
        return self._number

    async def scale(self, workers: int) -> None:
        self._number = workers
        self._write(f"{LINE}{workers}")
