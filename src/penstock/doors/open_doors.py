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
from penstock.doors.openai_files.batches import Batches, CancelBatch, OneBatch
from penstock.doors.openai_files.content import FileContent
from penstock.doors.openai_files.files import File, Files
from penstock.doors.openai_files.lines import DoorLines
from penstock.doors.protos import Proto, Protos
from penstock.doors.rerank import Rerank, SecondRerank
from penstock.doors.results import Results
from penstock.doors.tei import Embed
from penstock.doors.tei_predict import Predict
from penstock.doors.tei_rerank import TeiRerank
from penstock.doors.websocket import WebSocketDoor
from penstock.ports.jobs import Jobs

Make = Callable[[Inside], Door]
LINES = (Embeddings, Completions, Inference)  # doors through which the lines of files may be asked

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
    if inside.jobs is not None and "openai" not in closed:
        doors += _of_files(inside, inside.jobs)
    pages = LargeBodies(inside.gateway.clock)
    return [*doors, Document(inside, doors, pages), Docs(inside, pages)]


def lines_of(inside: Inside) -> DoorLines:
    """Returns what the lines of files are asked through."""
    return DoorLines(inside, [make(inside) for make in LINES])


def _of_files(inside: Inside, jobs: Jobs) -> list[Door]:
    return [
        Files(inside, jobs),
        File(inside, jobs),
        FileContent(inside, jobs),
        Batches(inside, jobs, [make.path for make in LINES]),
        OneBatch(inside, jobs),
        CancelBatch(inside, jobs),
    ]
