"""A WebSocket and whoever talks over it, as they know each other: a contract. `websocket.py` implements `Wire`, and
tells a `Talk` of each message; a door implements `Talk` (`doors/conversation.py`).

    client ──frames──► the wire (edge) ──messages──► the talk (door) ──asks──► the gateway
"""

from typing import Protocol


class Wire(Protocol):
    """The WebSocket, as its talk knows it."""

    def send(self, message: bytes) -> None:
        """Send a message: text, in UTF-8. Nothing is sent once the wire has ended."""
        ...

    def hang_up(self, code: int, reason: str) -> None:
        """End the connection with a code of RFC 6455, 7.4, and a reason of up to 120 characters in ASCII."""
        ...

    def go_on(self) -> object:
        """Hear the next message, after the talk took nothing more for a while."""
        ...


class Talk(Protocol):
    """What is told of a WebSocket's messages."""

    @property
    def is_ready(self) -> bool:
        """Whether the next message may be told. If not, the talk calls `Wire.go_on` later."""
        ...

    @property
    def is_introduced(self) -> bool:
        """Whether it is known who asks, or need not be. The time for that is bounded."""
        ...

    @property
    def tenant(self) -> str:
        """Who has proved that the messages are theirs; empty if nobody has."""
        ...

    @property
    def in_flight(self) -> int:
        """How many answers the client is owed."""
        ...

    def begin(self, wire: Wire) -> None: ...

    def hear(self, message: bytes, *, text: bool) -> None:
        """Take a message. `text`: it came as text, and not as bytes. Never raises."""
        ...

    def say_good_bye(self) -> None:
        """Tell the client that the server is about to stop."""
        ...

    def left(self) -> None:
        """Note that the connection has ended: nobody waits for an answer any more. May be called more than once."""
        ...
