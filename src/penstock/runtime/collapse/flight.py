"""One execution that several wait for, and how those aboard compare."""

from dataclasses import replace

from msgspec import structs

from penstock.core.memory import Memory
from penstock.core.places import Place
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.types import Execution, Request


class Flight:
    """One execution for several, from their first asker to its landing."""

    __slots__ = ("carrier", "desk", "fingerprint", "over", "place", "riders", "version")

    def __init__(self, desk: Desk, place: Place, version: str) -> None:
        self.desk = desk
        self.place = place
        self.version = version  # of the model, as far as it was known then
        self.fingerprint: bytes | None = None  # where others look for its answer
        self.carrier: Passenger | None = None  # None: not sent yet
        self.riders: dict[str, Passenger] = {}  # all aboard, by key
        self.over = False


AnswerMemory = Memory[Flight | Passenger]  # with what is under way for an answer in the place of it


def is_queued(request: Passenger) -> bool:
    """Whether what will answer it has not gone to a worker."""
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
    """As one sees it that came while it was under way: no queue, and what was left of it."""
    left = execution.started + execution.seconds - rider.arrival
    return replace(execution, started=rider.arrival, seconds=max(0.0, left), rendered=None, counted=False)
