"""One execution that several requests wait for, and how the requests aboard compare."""

from dataclasses import replace

from msgspec import structs

from penstock.core.memory import Memory
from penstock.core.places import Place
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.types import Execution, Request


class Flight:
    """One execution for several requests, from the first of them to its landing."""

    __slots__ = ("carrier", "desk", "fingerprint", "over", "place", "riders", "version")

    def __init__(self, desk: Desk, place: Place, version: str) -> None:
        self.desk = desk
        self.place = place
        self.version = version  # the model's version, as far as it was known then
        self.fingerprint: bytes | None = None  # under which other gateways look for its answer
        self.carrier: Passenger | None = None  # the request that is executed; None: not sent yet
        self.riders: dict[str, Passenger] = {}  # all requests aboard, by key
        self.over = False


# Remembered answers, and in the same places what is under way for an answer.
AnswerMemory = Memory[Flight | Passenger]


def is_queued(request: Passenger) -> bool:
    """Whether the request that will answer it has not gone to a worker yet."""
    flight = request.flight
    if not isinstance(flight, Flight):
        return request.waiting
    return flight.carrier is None or flight.carrier.waiting


def is_before(request: Request, carrier: Request) -> bool:
    return request.tier < carrier.tier or (
        request.tier == carrier.tier
        and (request.expires, request.deadline) < (carrier.expires, carrier.deadline)
    )


def has_no_more_time(request: Request, carrier: Request) -> bool:
    return request.expires <= carrier.expires or request.deadline <= carrier.deadline


def copy_of(request: Passenger) -> Passenger:
    return structs.replace(request, key=f"{request.key}~", account=None)


def from_arrival(execution: Execution, rider: Request) -> Execution:
    """The execution as a rider sees it that came while it was under way: without a queue, and with what was left
    of it."""
    left = execution.started + execution.seconds - rider.arrival
    return replace(execution, started=rider.arrival, seconds=max(0.0, left), rendered=None, counted=False)
