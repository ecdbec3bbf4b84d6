"""One process at most leads those of its kind, by a lease. `cluster.autoscaler` asks before it acts;
`adapters/redis/bus/leadership.py` and `adapters/memory/leadership.py` implement it."""

from typing import Protocol


class Leadership(Protocol):
    """The lead as one process has it, or stands by for it. Nobody else has it while `leads` is true."""

    @property
    def leads(self) -> bool:
        """Whether this process leads now, by its own clock. A lease that could not be renewed in time is lost."""
        ...

    async def run(self) -> None:
        """Hold the lead, or take it once it is free, until cancelled."""
        ...

    async def give_up(self) -> None:
        """Let another process have the lead now, and do not take it again."""
        ...
