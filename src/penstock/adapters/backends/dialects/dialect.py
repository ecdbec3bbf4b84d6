"""The contract of a dialect: what the backend for HTTP endpoints (`http.py`) asks of a kind of endpoint. Each other
file in this folder has a class that keeps it. Pure."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock.types import Result

# Asks the endpoint for what is at a path, and returns it; None if it has no such thing.
Get = Callable[[str], Awaitable[bytes | None]]


class Sent(NamedTuple):
    """One call to the endpoint: its body, and header fields besides those of every call."""

    body: bytes
    headers: Mapping[str, str] = {}


class Dialect(Protocol):
    """One kind of endpoint. `most`: how many inputs one call may have; None: any number. `health`: the path to ask
    how it is; empty: a connection that opens is proof enough."""

    method: str
    takes_parameters: bool
    health: str
    most: int | None

    async def learn(self, get: Get) -> None:
        """Find out what must be known before the first batch. Raises BackendUnavailable."""
        ...

    def ask(self, inputs: Sequence[bytes], parameters: bytes, batch_id: str) -> Sent:
        """Returns the call for these inputs, which are JSON. Raises BatchRejected if the endpoint cannot be asked
        that way."""
        ...

    def result(self, content: bytes, headers: Mapping[str, str], inputs: Sequence[bytes]) -> Result:
        """Returns what a good answer says. Raises BatchRejected unless it has one output for each input."""
        ...

    def pressure(self, content: bytes, headers: Mapping[str, str]) -> float:
        """Returns how full the endpoint is, 0 to 1, by its answer to a batch or to the question how it is."""
        ...
