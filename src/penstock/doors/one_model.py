"""The door `/v1/models/{model}`: one of the models that `/v1/models` lists, as OpenAI's clients ask for it. The
data plane calls it, as every door; it asks the gateway and starts nothing."""

import msgspec

from penstock.doors import openai_shape
from penstock.doors.about import FRESH, Models, model_schema, models_of
from penstock.doors.door import Respond, TellingDoor, Visit
from penstock.doors.openapi_parts import Described, Offer, Part, answered, parameter
from penstock.edge.answer import JSON, Answer
from penstock.errors import NoSuchModel
from penstock.types import Failure


class OneModel(TellingDoor):
    """Tells of one model."""

    name = "openai"
    path = f"{Models.path}/{{model}}"

    async def tell(self, visit: Visit, respond: Respond) -> None:
        name = visit.path.removeprefix(f"{Models.path}/")
        models = models_of(self.inside.gateway)
        found = next((each for each in models if each["id"] == name), None)
        if found is None:
            known = ", ".join(str(each["id"]) for each in models)
            raise NoSuchModel(f"no model {name[:100]!r}; this server has {known}")
        respond(Answer(200, [JSON, FRESH], msgspec.json.encode(found)))

    def failure(self, failure: Failure, request_id: str) -> Answer:
        return openai_shape.failed(failure, request_id)

    def describe_errors(self, *statuses: int) -> Part:
        return openai_shape.refused(*statuses)

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "model",
            "tags": ["Other clients"],
            "summary": "One of the models",
            "parameters": [parameter("model", "path", "Its name.", {"enum": list(offer.models)})],
            "responses": {"200": answered("The model", "Model"), **self.describe_errors(404, 500, 503)},
        }
        schemas = {"Model": model_schema(offer), **openai_shape.ERROR_SCHEMA}
        return Described({self.path: {"get": operation}}, schemas)
