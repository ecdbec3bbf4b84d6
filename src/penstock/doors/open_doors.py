"""The list of all doors. A new door is a file in this folder and a name in this list. `roles/data_plane.py` opens
them once for each gateway."""

from collections.abc import Callable, Collection, Mapping, Sequence

from penstock.doors.about import Health, Models
from penstock.doors.completions import Completions
from penstock.doors.document import Docs, Document
from penstock.doors.door import Door, Inside
from penstock.doors.embeddings import Embeddings
from penstock.doors.large import LargeBodies
from penstock.doors.native import Inference, ShortInference
from penstock.doors.one_model import OneModel
from penstock.doors.open_inference.about import (
    Live,
    ModelMetadata,
    ModelReady,
    ModelVersionMetadata,
    ModelVersionReady,
    Ready,
    ServerMetadata,
)
from penstock.doors.open_inference.infer import Infer, VersionInfer
from penstock.doors.protos import Proto, Protos
from penstock.doors.rerank import Rerank, SecondRerank
from penstock.doors.results import Results
from penstock.doors.tei import Embed
from penstock.doors.tei_predict import Predict
from penstock.doors.tei_rerank import TeiRerank
from penstock.doors.websocket import WebSocketDoor

Make = Callable[[Inside], Door]

DOORS: Sequence[Make] = (Inference, ShortInference, Models, Health, Results, Protos, Proto)  # always open
# Open unless the setting in `[doors]` with this name is false.
FOR_OTHERS: Mapping[str, Sequence[Make]] = {
    "openai": (Embeddings, Completions, OneModel),
    "open_inference": (
        Infer, VersionInfer, Live, Ready, ServerMetadata, ModelMetadata, ModelVersionMetadata, ModelReady,
        ModelVersionReady,
    ),
    "tei": (Embed, TeiRerank, Predict),
    "rerank": (Rerank, SecondRerank),
    "websocket": (WebSocketDoor,),
}  # fmt: skip


def open_doors(inside: Inside, closed: Collection[str] = ()) -> list[Door]:
    """Returns all doors but those that are `closed`, and the two that describe them."""
    others = [make for name, several in FOR_OTHERS.items() if name not in closed for make in several]
    doors = [make(inside) for make in (*DOORS, *others)]
    pages = LargeBodies(inside.gateway.clock)
    return [*doors, Document(inside, doors, pages), Docs(inside, pages)]
