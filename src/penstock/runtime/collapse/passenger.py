"""A request as its gateway has it, with what is needed to share its execution with identical ones. The gateway
makes every accepted request as a `Passenger`. A batcher in the same process takes the same object, and looks only
at the `Queued` that it also is."""

from typing import TYPE_CHECKING

from penstock.core.places import Glance, Place
from penstock.core.queued import Queued
from penstock.types import Reply

if TYPE_CHECKING:
    from penstock.runtime.collapse.flight import Flight


class Passenger(Queued, eq=False):
    """A request from the moment its gateway has let it in.

    `flight` says where identical requests find it: by its glance, as long as nothing else looks like it; in its
    place in the memory; or aboard a flight with others. None: it cannot be found, so nobody joins it.
    """

    flight: "Glance | Place | Flight | None" = None
    # The model and its version as known when the request came: part of what makes two requests identical.
    epoch: str = ""


def own(reply: Reply) -> Passenger:
    """The request of a reply that came back to its gateway: the very one that was sent."""
    request = reply.request
    assert isinstance(request, Passenger)
    return request
