"""Of several processes that do the same work, one at most leads, by a lease. Autoscalers with different models have
a lead for each set of models. `Bus.leadership` hands it out, and `cluster.autoscaler` asks before it acts;
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
