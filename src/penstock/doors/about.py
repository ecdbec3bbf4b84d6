"""Two doors that tell of the server: `/v1/models`, its models, and `/health`, whether it serves. The data plane
calls them, as every door; they ask the gateway and start nothing."""

import time
from collections.abc import Mapping, Sequence

import msgspec

from penstock.doors.door import Respond, TellingDoor, Visit
from penstock.doors.openapi_parts import STRING, Described, Offer, Part, answered, object_of, refused
from penstock.edge.answer import JSON, Answer
from penstock.ports import Gateway

FRESH = ("cache-control", "no-store")  # tells caches to keep nothing, because the answer may soon be another


_BEGAN = int(time.time())


def models_of(gateway: Gateway) -> Sequence[Mapping[str, object]]:
    """Returns what a client is told of each model. OpenAI's clients expect each to say when it was made; they are
    told when this process began to serve."""
    return [{**each, "created": _BEGAN} for each in gateway.describe_models()]


class Models(TellingDoor):
    """Tells which models are served."""

    name = "native"
    path = "/v1/models"

    async def tell(self, visit: Visit, respond: Respond) -> None:
        said = {"object": "list", "data": models_of(self.inside.gateway)}
        respond(Answer(200, [JSON, FRESH], msgspec.json.encode(said)))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "models",
            "tags": ["Server"],
            "summary": "The models that are served",
            "description": "Each with what a client may want to know of it.",
            "responses": {"200": answered("The models", "Models"), **refused(500, 503)},
        }
        models = {"object": {"const": "list"}, "data": {"type": "array", "items": model_schema(offer)}}
        return Described({self.path: {"get": operation}}, {"Models": object_of(models)})


class Health(TellingDoor):
    """Tells load balancers whether traffic should come."""

    name = "native"
    path = "/health"
    methods = ("GET", "HEAD")
    public = True

    async def tell(self, visit: Visit, respond: Respond) -> None:
        reason = self.inside.not_ready()
        said = {"status": "unavailable", "reason": reason} if reason else {"status": "ok"}
        respond(Answer(503 if reason else 200, [JSON, FRESH], msgspec.json.encode(said)))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "health",
            "tags": ["Server"],
            "summary": "Whether it serves",
            "description": "For load balancers. Nobody is asked who they are.",
            "security": [],
            "responses": {
                "200": answered("Traffic may come", "Health"),
                "503": answered("No traffic should come now, and why", "Health"),
            },
        }
        said = {"status": {"enum": ["ok", "unavailable"]}, "reason": STRING}
        return Described({self.path: {"get": operation}}, {"Health": object_of(said, optional=("reason",))})


def model_schema(offer: Offer) -> Part:
    return object_of(
        {
            "id": {"enum": list(offer.models)},
            "object": {"const": "model"},
            "created": {"type": "integer", "minimum": 0, "description": "When this process began to serve."},
            "owned_by": {"const": "penstock"},
            "input": {"enum": sorted(set(offer.models.values())), "description": "What it takes."},
            "output": {"type": "string", "description": "What it gives."},
            "max_batch": {"type": "integer", "minimum": 1, "description": "Requests in one batch at most."},
            "default": {"type": "boolean", "description": "It is meant by requests that name no model."},
            "respond": {"enum": ["sync", "async"], "description": "`async`: a request becomes a task."},
            "parameters": {"type": "boolean", "description": "It takes `parameters`."},
            "ready": {"type": "boolean", "description": "A worker can serve it now."},
        }
    )
