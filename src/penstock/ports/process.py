"""What stands around the inside of a process: where it is reached, and what begins and ends with it."""

from typing import Protocol

from penstock.loops import Loops


class Listener(Protocol):
    """Where this process can be reached."""

    @property
    def url(self) -> str: ...

    @property
    def dead(self) -> bool: ...


class Companion(Protocol):
    """What begins and ends with a server, because it cannot serve without."""

    async def open(self, loops: Loops) -> None:
        """Get ready, and keep what is needed in `loops`. Raises UserMistake."""
        ...

    async def close(self) -> None: ...
