"""A flight: one execution that several requests wait for; and how the requests aboard compare. `flights`, which
starts and ends flights, is the only one that changes them."""

from dataclasses import replace

from msgspec import structs

from penstock.core.places import Place
from penstock.core.remembered_answers import RememberedAnswers
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Desk
from penstock.types import Execution, Request


class Flight:
    """One execution for several requests, from the first request until its answer is there."""

    __slots__ = ("carrier", "desk", "fingerprint", "over", "place", "riders", "version")

    def __init__(self, desk: Desk, place: Place, version: str) -> None:
        self.desk = desk
        self.place = place
        self.version = version  # the model's version, as far as it was known then
        # The name under which other gateways look for its answer. None: no store of answers was asked.
        self.fingerprint: bytes | None = None
        self.carrier: Passenger | None = None  # the request that is executed; None: not sent yet
        self.riders: dict[str, Passenger] = {}  # all requests aboard, by key
        self.over = False  # whether it has ended: its answer is there, it has failed, or all have left


# Remembered answers. A place may instead hold the flight, or the single request, that is under way for the answer.
AnswerMemory = RememberedAnswers[Flight | Passenger]


def is_queued(request: Passenger) -> bool:
    """Whether the execution that will answer this request has not gone to a worker yet."""
    flight = request.flight
    if not isinstance(flight, Flight):
        return request.waiting
    return flight.carrier is None or flight.carrier.waiting


def is_before(request: Request, carrier: Request) -> bool:
    """Whether a request is more urgent than the carrier of its flight."""
    return request.tier < carrier.tier or (
        request.tier == carrier.tier
        and (request.expires, request.deadline) < (carrier.expires, carrier.deadline)
    )


def has_no_more_time(request: Request, carrier: Request) -> bool:
    """Whether a request has no more time than the carrier, so that the carrier's end is its own too."""
    return request.expires <= carrier.expires or request.deadline <= carrier.deadline


def copy_of(request: Passenger) -> Passenger:
    """A copy of a request to be sent as the carrier, under a key of its own and counted by nobody."""
    return structs.replace(request, key=f"{request.key}~", account=None)


def from_arrival(execution: Execution, rider: Request) -> Execution:
    """The execution as it is told to a request that came while it was under way: without a wait in the queue, and
    only with the time that was left."""
    left = execution.started + execution.seconds - rider.arrival
    return replace(execution, started=rider.arrival, seconds=max(0.0, left), rendered=None, counted=False)
