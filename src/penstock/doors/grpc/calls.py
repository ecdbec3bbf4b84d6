"""What all doors for gRPC have in common: how a message is read, how one is answered, and the deadline that
gRPC sends. Each door for gRPC is a subclass of one of these two (`inference.py`, `native.py`, `health.py`,
`reflection.py`)."""

import re
from collections.abc import Sequence
from typing import Any, ClassVar

from google.protobuf.message import DecodeError

from penstock.doors.door import AskingDoor, Door, Inside, Letter, Respond, TellingDoor, Visit
from penstock.doors.grpc.status import failed
from penstock.doors.steps import Steps
from penstock.edge.answer import Answer
from penstock.edge.fields import Headers, request_id
from penstock.errors import Malformed, Unacceptable
from penstock.types import Ask, Failure

_TIMEOUT = re.compile(rb"(\d{1,8})([HMSmun])")
_UNITS = {b"H": 3600.0, b"M": 60.0, b"S": 1.0, b"m": 1e-3, b"u": 1e-6, b"n": 1e-9}
LONGEST = 24 * 3600.0  # seconds; the gateway allows less
SHORTEST = 1e-6


def deadline_of(headers: Headers) -> float | None:
    """Returns the seconds that a call has; None if its client has set no deadline."""
    said = headers.get(b"grpc-timeout")
    if said is None:
        return None
    found = _TIMEOUT.fullmatch(said)
    if found is None:
        raise Malformed("grpc-timeout must be at most 8 digits and a unit: H, M, S, m, u or n")
    return min(max(int(found[1]) * _UNITS[found[2]], SHORTEST), LONGEST)


def take_id(own_id: str, headers: Headers) -> None:
    """Make the id of a message in a stream the id of its request, so that the answer has it, whatever that
    is."""
    if own_id:
        headers[b"x-request-id"] = own_id.encode()
        if request_id(headers) is None:
            del headers[b"x-request-id"]
            raise Unacceptable("'id' must be 1 to 128 letters, digits or ._:+=@- in a stream")


def earlier(one: float | None, other: float | None) -> float | None:
    """Returns the shorter of two times, either of which may not be set."""
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)


class GrpcDoor(Door):
    """A method of gRPC."""

    name = "grpc"
    methods = ("POST",)
    request: ClassVar[Any]  # the class of the messages it takes
    several: ClassVar[bool] = False  # whether a call has several messages, each with an answer

    def parse(self, body: bytes) -> Any:
        """Returns the message in a body."""
        try:
            return self.request.FromString(body)
        except DecodeError:
            raise Malformed(f"the message is not {self.request.DESCRIPTOR.full_name}") from None

    def failure(self, failure: Failure, request_id: str) -> Answer:
        return failed(failure, request_id)


class GrpcAsking(GrpcDoor, AskingDoor):
    """A method that asks a model."""

    methods = ("POST",)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        """Returns the asks of a body."""
        raise NotImplementedError

    def is_quick(self, letter: Letter) -> bool:
        """Returns False: a message is no JSON, whatever it looks like."""
        return False

    def read_letter(self, letter: Letter) -> Steps[Sequence[Ask]]:
        return self.read(letter.body, letter.headers)


class GrpcTelling(GrpcDoor, TellingDoor):
    """A method that tells something."""

    methods = ("POST",)
    public = True

    def told(self, message: Any) -> Any:
        """Returns the message that answers this one."""
        raise NotImplementedError

    async def tell(self, visit: Visit, respond: Respond) -> None:
        respond(Answer(200, (), self.told(self.parse(visit.body)).SerializeToString()))


class GrpcAbout(GrpcTelling):
    """A method that tells which services there are."""

    def __init__(self, inside: Inside, services: Sequence[str]) -> None:
        """`services`: those that are open."""
        super().__init__(inside)
        self.services = services


def service_of(path: str) -> str:
    """Returns the service of a method."""
    return path.split("/")[1]
