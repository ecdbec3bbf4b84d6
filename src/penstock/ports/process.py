"""What belongs to a process besides its work: ports on which it listens, and companions that begin and end with it.
`runtime/embedded_server.py` and `cluster/gateway.py` open and close the companions. Listeners are opened by
`server`; `runtime/embedded_server.py` and `cluster/member.py` only look whether they still live."""

from typing import Protocol

from penstock.loops import Loops


class Listener(Protocol):
    """A port with its server, where this process can be reached. `server/` implements it."""

    @property
    def url(self) -> str: ...

    @property
    def dead(self) -> bool: ...


class Companion(Protocol):
    """Something that begins and ends with a server, because the server cannot serve without it."""

    async def open(self, loops: Loops) -> None:
        """Get ready, and keep what is needed in `loops`. Raises UserMistake."""
        ...

    async def close(self) -> None: ...
