"""The door `/embed`, as Text Embeddings Inference has it, so that its clients work unchanged. The data plane calls
it, as every door.

    {"inputs": "one text"}                     ──►  [[0.1, …]]
    {"inputs": ["one text", "another one"]}    ──►  [[0.1, …], [0.2, …]]

Each text is a request of its own, for the default model. Its answer is whatever the model makes of the text.
Options besides `inputs` go to the model as its `parameters`, unless they have their usual value.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec

from penstock.doors.door import Inside
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import check_unicode, decode, inputs_of
from penstock.doors.openapi_parts import (
    OUTPUT,
    QUOTA_FIELDS,
    TRACEPARENT,
    TRACESTATE,
    X_REQUEST_ID,
    Described,
    Offer,
    answered,
    input_schema,
    object_of,
    sent,
)
from penstock.doors.options import LARGEST, Option, parameters_of, schemas_of, whole
from penstock.doors.steps import Steps, at_once
from penstock.doors.tei_shape import ERROR_SCHEMA, ERRORS, TRUNCATION, TeiDoor
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.fields import NO_HEADERS, Headers
from penstock.errors import Unacceptable
from penstock.output import in_json
from penstock.types import Ask, Reply

OPTIONS = {
    **TRUNCATION,
    "normalize": Option((True,), {"type": "boolean"}),
    "prompt_name": Option((), {"type": "string"}),
    "dimensions": Option((), {"type": "integer", "minimum": 1, "maximum": LARGEST}),
}
SEVERAL = "'inputs' must be a string or a list of strings"


class EmbedBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/embed`."""

    inputs: msgspec.Raw
    truncate: bool | None = None
    normalize: bool | None = None
    prompt_name: str | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    dimensions: int | float | None = None  # as JSON, 2e3 is a whole number too


_BODY = msgspec.json.Decoder(EmbedBody)
_TEXTS = msgspec.json.Decoder(list[msgspec.Raw])


class Embed(TeiDoor):
    """Takes one text or several."""

    path = "/embed"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._inputs = inputs_of(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        yield
        said.dimensions = whole(said.dimensions, "dimensions", 1)
        parameters, asks = parameters_of(said, OPTIONS), list[Ask]()
        for text in self._texts(bytes(said.inputs)):
            checked = yield from self._inputs.check_in_steps(text, None, ascii_only=ascii_only)
            asks.append(Ask(checked, None, parameters))
            yield
        return asks

    def read_one(self, body: bytes) -> Ask | None:
        if b"[" in body:
            return None
        [ask] = at_once(self.read(body, NO_HEADERS))
        return ask

    def _texts(self, inputs: bytes) -> list[bytes]:
        texts = [inputs]
        if inputs.startswith(b"["):
            texts = [bytes(text) for text in _TEXTS.decode(inputs)]
            self.inside.check_number(len(texts))
        if not all(text.startswith(b'"') for text in texts):
            raise Unacceptable(SEVERAL)
        return texts

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        outputs = [in_json(reply.output)[0] for reply in replies]
        told = usual_of(replies[0].request, now)
        return Answer(200, JSON_ALONE, b"[%b]" % b",".join(outputs), told)

    # ---- the document --------------------------------------------------------------------------------------

    def describe(self, offer: Offer) -> Described:
        if offer.default is None:  # then no model is meant by requests that name none
            return Described()
        operation = {
            "operationId": "embed",
            "tags": ["Other clients"],
            "summary": "Embed texts, as Text Embeddings Inference does",
            "description": "One output for each text, in their order: all of them, or an error.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("EmbedRequest"),
            "responses": {
                "200": answered("The outputs", "EmbedAnswer", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }
        text = input_schema("text", offer.clean)
        several = {"type": "array", "items": text, "minItems": 1, "description": f"At most {offer.max_asks}."}
        options = schemas_of(OPTIONS, offer.parameters.get(offer.default))
        schemas = {
            "EmbedRequest": {
                **object_of({"inputs": {"anyOf": [text, several]}, **options}, optional=[*OPTIONS]),
                "examples": [{"inputs": ["hello", "world"]}],
            },
            "EmbedAnswer": {"type": "array", "items": OUTPUT, "minItems": 1},
            **ERROR_SCHEMA,
        }
        return Described({self.path: {"post": operation}}, schemas)
