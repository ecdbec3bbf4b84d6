"""The door `/predict`, as Text Embeddings Inference has it, so that its clients work unchanged. The data plane
calls it, as every door.

    {"inputs": "one text"}                        ──►   [{"label": "joy", "score": 0.9}, {"label": "anger", …}]
    {"inputs": ["a text", "and another"]}         ──►   the same, of a pair of texts
    {"inputs": [["one text"], ["of", "a pair"]]}  ──►   [[{"label": "joy", …}, …], [{"label": "joy", …}, …]]

Each text or pair is a request of its own, for the default model. A pair reaches the model as a list of two texts.
What an output may look like is told in `scores.py`. The labels with the highest scores come first.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from penstock.doors.door import Call, Inside
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import check_unicode, decode, inputs_of
from penstock.doors.openapi_parts import (
    QUOTA_FIELDS,
    TRACEPARENT,
    TRACESTATE,
    X_REQUEST_ID,
    Described,
    Offer,
    Part,
    answered,
    input_schema,
    object_of,
    of_structs,
    sent,
)
from penstock.doors.options import parameters_of, schemas_of
from penstock.doors.pairs import Pairs
from penstock.doors.scores import NO_LABELS, Prediction, predictions_of
from penstock.doors.steps import Steps
from penstock.doors.tei_shape import ERROR_SCHEMA, ERRORS, OF_SCORES, TeiDoor
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.fields import Headers
from penstock.errors import Unacceptable
from penstock.types import Ask, Reply

FORMS = "'inputs' must be a text, a list of one text or two (a pair), or a list of such lists"


class PredictBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/predict`."""

    inputs: msgspec.Raw
    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    raw_scores: bool | None = None


_BODY = msgspec.json.Decoder(PredictBody)
_EACH = msgspec.json.Decoder(list[msgspec.Raw])


class Predict(TeiDoor):
    """Takes one text or pair, or several."""

    path = "/predict"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._inputs = inputs_of(inside)
        self._pairs = Pairs(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        yield
        parameters = parameters_of(said, OF_SCORES)
        several, is_list = self._apart(bytes(said.inputs))
        asks = []
        for texts in several:
            yield
            checked = yield from self._input(texts, ascii_only=ascii_only)
            asks.append(Ask(checked, None, parameters))
        return Call(asks, partial(self._predicted, is_list))

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self._predicted(True, replies, now)

    def _apart(self, inputs: bytes) -> tuple[Sequence[Sequence[bytes]], bool]:
        """Returns the texts of each input, and whether the client sent a list of inputs."""
        if inputs.startswith(b'"'):
            return [[inputs]], False
        each = _listed(inputs)
        if not each:
            return [], True
        if each[0].startswith(b'"'):
            return [_one_or_two(each)], False
        self.inside.check_number(len(each))
        return [_one_or_two(_listed(one)) for one in each], True

    def _input(self, texts: Sequence[bytes], *, ascii_only: bool) -> Steps[bytes]:
        if len(texts) == 1:
            return (yield from self._inputs.check_in_steps(texts[0], None, ascii_only=ascii_only))
        self._pairs.refuse_text_only(None, "'inputs' holds two texts that")
        [pair] = yield from self._pairs.with_each(texts[0], texts[1:], None, ascii_only=ascii_only)
        return pair

    def _predicted(self, is_list: bool, replies: Sequence[Reply], now: float) -> Answer:
        """`is_list`: whether the answer is a list with the labels of each input."""
        each: list[list[Prediction]] = []
        for reply in replies:
            predictions = predictions_of(reply.output)
            if predictions is None:
                return self.unfit(reply, NO_LABELS)
            each.append(sorted(predictions, key=lambda made: -made.score))
        said = msgspec.json.encode(each if is_list else each[0])
        return Answer(200, JSON_ALONE, said, usual_of(replies[0].request, now))

    def describe(self, offer: Offer) -> Described:
        if offer.default is None:  # then no model is meant by requests that name none
            return Described()
        operation = {
            "operationId": "predict",
            "tags": ["Other clients"],
            "summary": "Label texts, as Text Embeddings Inference does",
            "description": "The labels of each text or pair with their scores, the highest first.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("PredictRequest"),
            "responses": {
                "200": answered("The labels", "Predictions", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }
        options = schemas_of(OF_SCORES, offer.parameters.get(offer.default))
        inputs = _inputs_schema(input_schema("text", offer.clean), offer)
        labels = {"type": "array", "items": {"$ref": "#/components/schemas/Prediction"}, "minItems": 1}
        schemas = {
            "PredictRequest": object_of({"inputs": inputs, **options}, optional=[*options]),
            **of_structs(Prediction),
            "Predictions": {"anyOf": [labels, {"type": "array", "items": labels, "minItems": 1}]},
            **ERROR_SCHEMA,
        }
        return Described({self.path: {"post": operation}}, schemas)


def _listed(inputs: bytes) -> Sequence[bytes]:
    if not inputs.startswith(b"["):
        raise Unacceptable(FORMS)
    return [bytes(one) for one in _EACH.decode(inputs)]


def _one_or_two(texts: Sequence[bytes]) -> Sequence[bytes]:
    if not 1 <= len(texts) <= 2 or not all(text.startswith(b'"') for text in texts):
        raise Unacceptable(FORMS)
    return texts


def _inputs_schema(text: Part, offer: Offer) -> Part:
    """A model that takes text alone takes no pairs."""
    assert offer.default is not None
    most = 1 if offer.models[offer.default] == "text" else 2
    one = {"type": "array", "items": text, "minItems": 1, "maxItems": most}
    about = f"At most {offer.max_asks}."
    return {"anyOf": [text, one, {"type": "array", "items": one, "minItems": 1, "description": about}]}
