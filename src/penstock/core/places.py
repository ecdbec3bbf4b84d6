"""Where the answer to a request is, or what is under way for it.

A place is known by everything that makes an answer: the whole input, the model at its version, who may have it, the
parameters. Compared as they are, no two can be taken for each other.

Hashing a whole input is dear, and most are like no other. So a few bytes of it are looked at first: where nothing
looks like it, nothing is the same.
"""

from typing import Generic, TypeVar

Glance = bytes
# Input, model and version, tenant (empty where all share it), parameters; and what the input looks like.
Place = tuple[bytes, str, str, bytes, Glance]

Owner = TypeVar("Owner")  # what stands in a place

# The parts of an input that are looked at first; an input that is no longer than these is seen as a whole.
HEAD, TAIL = slice(None, 128), slice(-64, None)


def glance(text: bytes) -> Glance:
    return text[HEAD] + text[TAIL]


class Places(Generic[Owner]):
    __slots__ = ("glances", "taken")

    def __init__(self) -> None:
        self.glances: dict[Glance, int] = {}  # how many places look like each glance
        self.taken: dict[Place, Owner] = {}

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
