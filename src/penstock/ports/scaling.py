"""What sees to it that there are as many workers as are wanted: a Kubernetes Deployment, a command of the user's,
or whoever started this process. The autoscaler (`cluster/autoscaler.py`) calls it; `adapters/scaling` implements
it."""

from typing import Protocol

LINE = "workers: "  # begins the line in which an autoscaler tells the supervisor that started it


class NotScaled(Exception):
    """The number of workers could not be asked for, or be read. The message says why, in one line."""


class Hand(Protocol):
    """Sets the number of workers. `present` and `scale` may raise NotScaled, and are tried again."""

    async def present(self) -> int | None:
        """How many workers there are, or are about to be. None: it cannot tell, and the registry must do."""
        ...

    async def scale(self, workers: int) -> None:
        """Let there be so many workers. It may return before there are."""
        ...

    async def close(self) -> None: ...
