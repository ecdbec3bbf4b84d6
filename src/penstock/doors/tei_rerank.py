"""The door `/rerank`, as Text Embeddings Inference has it, so that its clients work unchanged. The data plane calls
it, as every door.

    {"query": "q", "texts": ["one", "two"]}    ──►    [{"index": 1, "score": 0.98}, {"index": 0, "score": 0.02}]

Each text is a request of its own, with the query, for the default model: the model gets a list of the two, and its
output must be a score (`scores.py`). The best come first.
"""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import msgspec

from penstock.doors.door import Call, Inside
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import check_unicode, decode
from penstock.doors.openapi_parts import (
    QUOTA_FIELDS,
    STRING,
    TRACEPARENT,
    TRACESTATE,
    X_REQUEST_ID,
    Described,
    Offer,
    Part,
    answered,
    input_schema,
    object_of,
    sent,
)
from penstock.doors.options import parameters_of, schemas_of
from penstock.doors.pairs import Pairs, taking_pairs
from penstock.doors.scores import NO_SCORE, best_first, score_of
from penstock.doors.steps import Steps
from penstock.doors.tei_shape import ERROR_SCHEMA, ERRORS, OF_SCORES, TeiDoor
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.fields import Headers
from penstock.errors import Unacceptable
from penstock.types import Ask, Reply


class TeiRerankBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/rerank`."""

    query: msgspec.Raw
    texts: list[msgspec.Raw]
    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    raw_scores: bool | None = None
    return_text: bool | None = None


_BODY = msgspec.json.Decoder(TeiRerankBody)


class TeiRerank(TeiDoor):
    """Takes a query and texts, and ranks these."""

    path = "/rerank"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._pairs = Pairs(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        yield
        self._pairs.refuse_text_only(None, "'query' and each of 'texts'")
        parameters, query = parameters_of(said, OF_SCORES), bytes(said.query)
        self.inside.check_number(len(said.texts))
        texts = [bytes(text) for text in said.texts]
        if not all(text.startswith(b'"') for text in (query, *texts)):
            raise Unacceptable("'query' must be a text, and 'texts' a list of texts")
        pairs = yield from self._pairs.with_each(query, texts, None, ascii_only=ascii_only)
        answer = partial(self._ranked, texts if said.return_text else None)
        return Call([Ask(pair, None, parameters) for pair in pairs], answer)

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self._ranked(None, replies, now)

    def _ranked(self, texts: Sequence[bytes] | None, replies: Sequence[Reply], now: float) -> Answer:
        """`texts`: for the results; None: they come without."""
        scores = []
        for reply in replies:
            score = score_of(reply.output)
            if score is None:
                return self.unfit(reply, NO_SCORE)
            scores.append(score)
        ranks: list[Part] = []
        for index in best_first(scores):
            text = {} if texts is None else {"text": msgspec.Raw(texts[index])}
            ranks.append({"index": index, **text, "score": scores[index]})
        return Answer(200, JSON_ALONE, msgspec.json.encode(ranks), usual_of(replies[0].request, now))

    def describe(self, offer: Offer) -> Described:
        model = taking_pairs(offer).default
        if model is None:  # then no model is meant by requests that name none, or it takes no pairs
            return Described()
        operation = {
            "operationId": "rerank",
            "tags": ["Other clients"],
            "summary": "Rank texts by a query, as Text Embeddings Inference does",
            "description": "All texts are scored, or the answer is an error. The best come first.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("TeiRerankRequest"),
            "responses": {
                "200": answered("The ranks", "TeiRanks", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }
        text = input_schema("text", offer.clean)
        several = {"type": "array", "items": text, "minItems": 1, "description": f"At most {offer.max_asks}."}
        options = schemas_of(OF_SCORES, offer.parameters.get(model))
        properties = {
            "query": text, "texts": several, **options, "return_text": {"type": ["boolean", "null"]}
        }  # fmt: skip
        rank = {"index": {"type": "integer", "minimum": 0}, "text": STRING, "score": {"type": "number"}}
        schemas = {
            "TeiRerankRequest": object_of(properties, optional=[*options, "return_text"]),
            "TeiRanks": {"type": "array", "items": object_of(rank, optional=["text"]), "minItems": 1},
            **ERROR_SCHEMA,
        }
        return Described({self.path: {"post": operation}}, schemas)
