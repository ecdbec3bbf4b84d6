"""Places: each holds the answer to a request of a deterministic model, or the request that is under way for it.

Requests with the same place have the same answer. A place is everything that makes an answer: the whole input, the
model at its version, who may have it, the parameters. These are compared as they are, so no two requests can be
taken for each other by accident.

Hashing a whole input is dear, and most inputs are unlike all others. So a few bytes of an input, its glance, are
looked up first: if no other has the same glance, no other is the same.

There is one `Places` for a gateway. It belongs to `remembered_answers`, which keeps answers in it.
`runtime/collapse` looks every request for a deterministic model up in the same one, and puts in those that are
under way.
"""

from typing import Generic, TypeVar

Glance = bytes
# Input, model and version, tenant (empty where all share it), parameters; and what the input looks like.
Place = tuple[bytes, str, str, bytes, Glance]

Owner = TypeVar("Owner")  # what stands in a place

# The parts of an input that are looked at first; an input that is no longer than these is seen as a whole.
HEAD, TAIL = slice(None, 128), slice(-64, None)


def glance(text: bytes) -> Glance:
    """What an input looks like: its first and last bytes."""
    return text[HEAD] + text[TAIL]


class Places(Generic[Owner]):
    """The places that are taken, and what stands in each."""

    __slots__ = ("glances", "taken")

    def __init__(self) -> None:
        self.glances: dict[Glance, int] = {}  # how many places look like each glance
        self.taken: dict[Place, Owner] = {}  # by place, what stands in it

    def get(self, place: Place) -> Owner | None:
        """The owner of a place; None if it is free."""
        return self.taken.get(place)

    def put(self, place: Place, owner: Owner) -> None:
        """Put an owner into a place, instead of whatever is there."""
        taken = self.taken
        if place not in taken:
            look = place[4]
            self.glances[look] = self.glances.get(look, 0) + 1
        taken[place] = owner

    def remove(self, place: Place, owner: Owner) -> None:
        """Free a place. Does nothing if it is another owner's by now."""
        taken = self.taken
        if taken.get(place) is owner:
            del taken[place]
            look = place[4]
            alike = self.glances.pop(look)
            if alike > 1:
                self.glances[look] = alike - 1
