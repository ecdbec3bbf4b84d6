"""The doors of the Open Inference Protocol that tell of the server and of its models: `/v2`, `/v2/health/…` and
`/v2/models/…`. The data plane calls them, as every door; they ask the gateway and start nothing.

KServe's client reads the bodies of the health doors, Triton's the status alone.
"""

from typing import ClassVar

import msgspec

import penstock
from penstock.doors.about import FRESH
from penstock.doors.door import Respond, TellingDoor, Visit
from penstock.doors.open_inference.outputs import OUTPUT
from penstock.doors.open_inference.shape import (
    ERROR_SCHEMA,
    MODELS,
    VERSION,
    OpenInferenceDoor,
    found,
    model_at,
    path_parameters,
)
from penstock.doors.open_inference.tensor import BYTES
from penstock.doors.openapi_parts import STRING, Described, Offer, Part, answered, object_of
from penstock.edge.answer import JSON, Answer

EXTENSIONS = ["binary_tensor_data"]
INPUT = "input"


class Telling(OpenInferenceDoor, TellingDoor):
    """What these doors have in common: each tells one object."""

    operation: ClassVar[str]
    summary: ClassVar[str]
    schema: ClassVar[str]

    def told(self, visit: Visit) -> tuple[int, Part]:
        """Returns the status and the body."""
        raise NotImplementedError

    async def tell(self, visit: Visit, respond: Respond) -> None:
        status, said = self.told(visit)
        respond(Answer(status, [JSON, FRESH], msgspec.json.encode(said)))

    def properties(self, offer: Offer) -> Part:
        """Returns the properties of the body."""
        raise NotImplementedError

    statuses: ClassVar[tuple[int, ...]] = ()  # of answers with that body, besides 200

    def describe(self, offer: Offer) -> Described:
        told = {str(status): answered(self.summary, self.schema) for status in (200, *self.statuses)}
        # An unknown model has the shape of an error, and so have other failures.
        others = self.describe_errors(
            *({404, 500, 503} if "{" in self.path else {500, 503}) - {*self.statuses}
        )
        operation: Part = {
            "operationId": self.operation,
            "tags": ["Other clients"],
            "summary": self.summary,
            **({"security": []} if self.public else {}),
            **({"parameters": path_parameters(self.path, offer)} if "{" in self.path else {}),
            "responses": {**told, **others},
        }
        return Described(
            {self.path: {"get": operation}}, {self.schema: object_of(self.properties(offer)), **ERROR_SCHEMA}
        )


class ServerMetadata(Telling):
    """Tells what the server is."""

    path = "/v2"
    operation, summary, schema = "serverMetadata", "What the server is", "ServerMetadata"

    def told(self, visit: Visit) -> tuple[int, Part]:
        return 200, {"name": "penstock", "version": penstock.__version__, "extensions": EXTENSIONS}

    def properties(self, offer: Offer) -> Part:
        return {"name": STRING, "version": STRING, "extensions": {"type": "array", "items": STRING}}


class Live(Telling):
    """Tells that the process is there."""

    path = "/v2/health/live"
    methods = ("GET", "HEAD")
    public = True
    operation, summary, schema = "serverLive", "That the server is there", "ServerLive"

    def told(self, visit: Visit) -> tuple[int, Part]:
        return 200, {"live": True}

    def properties(self, offer: Offer) -> Part:
        return {"live": {"const": True}}


class Ready(Telling):
    """Tells whether traffic should come."""

    path = "/v2/health/ready"
    methods = ("GET", "HEAD")
    public = True
    operation, summary, schema = "serverReady", "Whether traffic should come", "ServerReady"
    statuses = (503,)

    def told(self, visit: Visit) -> tuple[int, Part]:
        ready = not self.inside.not_ready()
        return 200 if ready else 503, {"ready": ready}

    def properties(self, offer: Offer) -> Part:
        return {"ready": {"type": "boolean"}}


class ModelReady(Telling):
    """Tells whether a worker can serve a model now."""

    path = f"{MODELS}{{model}}/ready"
    methods = ("GET", "HEAD")
    operation, summary, schema = "modelReady", "Whether a model can be served now", "ModelReady"
    statuses = (503,)

    def told(self, visit: Visit) -> tuple[int, Part]:
        model = found(self.inside.gateway, model_at(visit.path))
        return 200 if model["ready"] else 503, {"name": model["id"], "ready": model["ready"]}

    def properties(self, offer: Offer) -> Part:
        return {"name": {"enum": list(offer.models)}, "ready": {"type": "boolean"}}


class ModelVersionReady(ModelReady):
    """The same by its version."""

    path = f"{MODELS}{{model}}/versions/{{version}}/ready"
    operation = "modelVersionReady"


class ModelMetadata(Telling):
    """Tells what a model takes and gives."""

    path = f"{MODELS}{{model}}"
    operation, summary, schema = "modelMetadata", "What a model takes and gives", "ModelMetadata"

    def told(self, visit: Visit) -> tuple[int, Part]:
        model = found(self.inside.gateway, model_at(visit.path))
        return 200, metadata_of(str(model["id"]))

    def properties(self, offer: Offer) -> Part:
        tensor = object_of(
            {"name": STRING, "datatype": STRING, "shape": {"type": "array", "items": {"type": "integer"}}}
        )
        return {
            "name": {"enum": list(offer.models)},
            "versions": {"type": "array", "items": {"const": VERSION}},
            "platform": {"const": "penstock"},
            "inputs": {"type": "array", "items": tensor},
            "outputs": {"type": "array", "items": tensor},
        }


class ModelVersionMetadata(ModelMetadata):
    """The same by its version."""

    path = f"{MODELS}{{model}}/versions/{{version}}"
    operation = "modelVersionMetadata"


def metadata_of(model: str) -> Part:
    """Returns what a client is told of a model. A function does not say which tensors it takes and gives: it can be
    sent texts, and what it takes besides these only its author knows."""
    return {
        "name": model,
        "versions": [VERSION],
        "platform": "penstock",
        "inputs": [{"name": INPUT, "datatype": BYTES, "shape": [-1]}],
        "outputs": [{"name": OUTPUT, "datatype": BYTES, "shape": [-1]}],
    }
