"""The list of all doors. A new door is a file in this folder and a name in this list. `roles/data_plane.py` opens
them once for each gateway."""

from collections.abc import Callable, Sequence

from penstock.doors.about import Health, Models
from penstock.doors.document import Docs, Document
from penstock.doors.door import Door, Inside
from penstock.doors.large import LargeBodies
from penstock.doors.native import Inference, ShortInference
from penstock.doors.results import Results
from penstock.doors.tei import Embed

DOORS: Sequence[Callable[[Inside], Door]] = (Inference, ShortInference, Embed, Models, Health, Results)


def open_doors(inside: Inside) -> list[Door]:
    """Returns all doors, and the two that describe them."""
    doors = [make(inside) for make in DOORS]
    pages = LargeBodies(inside.gateway.clock)
    return [*doors, Document(inside, doors, pages), Docs(inside, pages)]
