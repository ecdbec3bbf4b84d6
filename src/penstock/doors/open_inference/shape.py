"""What the doors of the Open Inference Protocol have in common: the shape of an error, the names in their
paths, and the one version that each model has. Such doors import it (`infer.py`, `about.py`).

    {"error": "no model 'm'; this server has embed"}
"""

from collections.abc import Mapping

import msgspec

from penstock.doors.door import Door
from penstock.doors.every_answer import failure_fields, in_full, status_of
from penstock.doors.openapi_parts import STRING, Offer, Part, answered, object_of, parameter
from penstock.edge.answer import Answer
from penstock.errors import NoSuchModel, Unacceptable
from penstock.ports import Gateway
from penstock.types import Failure

MODELS = "/v2/models/"
VERSION = "1"  # of every model: a server serves one version of a model at a time
ERROR_SCHEMA: Part = {"OpenInferenceError": object_of({"error": STRING})}


def failed(failure: Failure, request_id: str) -> Answer:
    """Returns the answer to a failure."""
    status = 400 if failure.code == Unacceptable.code else status_of(failure)
    fields = failure_fields(failure, request_id)
    return Answer(status, fields, msgspec.json.encode({"error": in_full(failure)}))


def refused(*statuses: int) -> Part:
    about = "In the shape that these clients know."
    return {str(status): answered(about, "OpenInferenceError", "X-Request-Id") for status in statuses}


def model_at(path: str) -> str:
    """Returns the model that a path names. Refuses a version of it that is not served."""
    name, _, rest = path.removeprefix(MODELS).partition("/")
    parts = rest.split("/")
    if parts[0] == "versions" and parts[1] != VERSION:
        raise NoSuchModel(f"no version {parts[1][:50]!r} of the model {name[:100]!r}; it has {VERSION!r}")
    return name


def found(gateway: Gateway, name: str) -> Mapping[str, object]:
    """Returns what a client is told of a model. Raises NoSuchModel."""
    models = gateway.describe_models()
    for each in models:
        if each["id"] == name:
            return each
    raise NoSuchModel(
        f"no model {name[:100]!r}; this server has {', '.join(str(each['id']) for each in models)}"
    )


def path_parameters(path: str, offer: Offer) -> list[Part]:
    """Returns the descriptions of the names in a path."""
    parameters = [parameter("model", "path", "Its name.", {"enum": list(offer.models)})]
    if "{version}" in path:
        parameters.append(parameter("version", "path", "The only one.", {"const": VERSION}))
    return parameters


class OpenInferenceDoor(Door):
    """A door whose errors have this shape."""

    name = "open_inference"

    def failure(self, failure: Failure, request_id: str) -> Answer:
        return failed(failure, request_id)

    def describe_errors(self, *statuses: int) -> Part:
        return refused(*statuses)
