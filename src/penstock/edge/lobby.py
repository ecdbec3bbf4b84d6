"""What the edges of one process have together: their connections, the bytes that are kept for clients, and the
lines in which work waits for its turn. HTTP and gRPC have a port each, and one `Lobby` (`roles/data_plane.py`,
`roles/grpc.py`), so that each limit holds for both together. The admin plane's edge has one of its own."""

import asyncio
from typing import TypeVar

from penstock.edge.held import Held
from penstock.edge.turns import Turns

HELLOS = 0.001  # seconds of a turn of the loop for handshakes; the last of them may take a little longer

Member = TypeVar("Member")


class Lobby:
    """What one or several edges share."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, max_unfinished: int, max_unsent: int, *, keys: bool = False
    ) -> None:
        """`keys`: whether clients can prove who they are."""
        self.held = Held(max_unfinished, keys=keys)  # of requests that have not come in full
        self.unsent = Held(max_unsent, keys=keys)  # of answers that their clients have not taken
        self.turns = Turns(loop)
        self.sending = Turns(loop)  # large answers, piece by piece
        self.hellos = Turns(loop, HELLOS)  # handshakes, step by step
        self._edges: list[set[object]] = []

    def add(self, connections: "set[Member]") -> "set[Member]":
        """Count the connections of an edge. Returns the same set."""
        self._edges.append(connections)  # type: ignore[arg-type]
        return connections

    @property
    def connections(self) -> int:
        """How many there are, of all edges together."""
        return sum(map(len, self._edges))
