"""The doors `/v1/rerank` and `/v2/rerank`, as Cohere, Jina and vLLM have them, so that their clients work
unchanged. The data plane calls them, as every door.

    {"model": "m", "query": "q", "documents": ["one", "two"], "top_n": 1}
        ──►  {"results": [{"index": 1, "relevance_score": 0.98}], "id": "…", "model": "m", "usage": {…}, …}

Each document is a request of its own, with the query: the model gets a list of the two, and its output must be a
score (`scores.py`). Results come with their documents at `/v1`, where clients of Jina and vLLM read them, and
without at `/v2`, which is Cohere's. `return_documents` goes before that.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import msgspec

from penstock.doors.by_model import body_by_model
from penstock.doors.door import AskingDoor, Call, Inside
from penstock.doors.embeddings import check_user
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import check_unicode, decode
from penstock.doors.openai_shape import (
    ERROR,
    ERRORS,
    PASSED_OVER,
    USER,
    fields_of,
    said_of,
    tokens_of,
)
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
from penstock.doors.options import LARGEST, Option, parameters_of, schemas_of, whole
from penstock.doors.pairs import Pairs, taking_pairs
from penstock.doors.scores import NO_SCORE, best_first, score_of
from penstock.doors.steps import Steps
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.fields import Headers
from penstock.errors import Unacceptable
from penstock.types import Ask, Failure, Reply

COUNT: Part = {"type": "integer", "minimum": 1, "maximum": LARGEST}
OPTIONS = {
    "max_tokens_per_doc": Option((), COUNT),
    "max_chunks_per_doc": Option((), COUNT),
    "truncate_prompt_tokens": Option((), {"type": "integer", "minimum": -1, "maximum": LARGEST}),
    "use_activation": Option((True,), {"type": "boolean"}),
}
WHOLE = {"top_n": 0, "max_tokens_per_doc": 1, "max_chunks_per_doc": 1, "truncate_prompt_tokens": -1}
NO_DOCUMENT = "'documents' must be a list of texts, or of objects that have a 'text' and nothing else"


class RerankBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/v1/rerank` and `/v2/rerank`."""

    query: msgspec.Raw
    documents: list[msgspec.Raw]
    model: str | None = None
    top_n: int | float | None = None  # as JSON, 2e1 is a whole number too
    return_documents: bool | None = None
    max_tokens_per_doc: int | float | None = None
    max_chunks_per_doc: int | float | None = None
    rank_fields: list[str] | None = None
    truncate_prompt_tokens: int | float | None = None
    use_activation: bool | None = None
    user: str | None = None
    service_tier: str | None = None  # passed over, as the next: the tier is the one of the key
    priority: int | float | None = None


class _Document(msgspec.Struct, forbid_unknown_fields=True):
    text: msgspec.Raw


_BODY = msgspec.json.Decoder(RerankBody)
_DOCUMENT = msgspec.json.Decoder(_Document)


class Rerank(AskingDoor):
    """Takes a query and documents, and ranks these. Answers as the first version of these servers does."""

    name = "rerank"
    path = "/v1/rerank"
    version: ClassVar[str] = "1"
    gives_documents: ClassVar[bool] = True  # where the client does not say whether it wants them

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._pairs = Pairs(inside)

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        yield
        _check(said)
        self._pairs.refuse_text_only(said.model, "'query' and each of 'documents'")
        parameters, query = parameters_of(said, OPTIONS), bytes(said.query)
        if not query.startswith(b'"'):
            raise Unacceptable("'query' must be a text")
        self.inside.check_number(len(said.documents))
        documents = [_text(bytes(document)) for document in said.documents]
        yield
        pairs = yield from self._pairs.with_each(query, documents, said.model, ascii_only=ascii_only)
        wanted = self.gives_documents if said.return_documents is None else said.return_documents
        answer = partial(self._ranked, int(said.top_n or 0), documents if wanted else None)
        return Call([Ask(pair, said.model, parameters, said.user) for pair in pairs], answer)

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self._ranked(0, None, replies, now)

    def failure(self, failure: Failure, request_id: str) -> Answer:
        """Returns the same words at the three places where these clients look: Cohere's at `message`, Jina's at
        `detail`, and those of vLLM, which are OpenAI's, at `error`."""
        status, error = said_of(failure)
        said = {"message": error["message"], "detail": error["message"], "error": error}
        return Answer(status, fields_of(failure, status, request_id), msgspec.json.encode(said))

    def _ranked(
        self, top_n: int, documents: Sequence[bytes] | None, replies: Sequence[Reply], now: float
    ) -> Answer:
        """`top_n`: how many results there may be; 0: any number. `documents`: for the results; None: they come
        without."""
        scores = []
        for reply in replies:
            score = score_of(reply.output)
            if score is None:
                return self.unfit(reply, NO_SCORE)
            scores.append(score)
        results: list[Part] = []
        for index in best_first(scores)[: top_n or None]:
            result: Part = {"index": index, "relevance_score": scores[index]}
            if documents is not None:
                result["document"] = {"text": msgspec.Raw(documents[index])}
            results.append(result)
        request, tokens = replies[0].request, tokens_of(replies)
        said = {
            "id": f"rerank-{request.request_id}",
            "model": request.model,
            "results": results,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": {"api_version": {"version": self.version}, "tokens": {"input_tokens": tokens}},
        }
        return Answer(200, JSON_ALONE, msgspec.json.encode(said), usual_of(request, now))

    # ---- the document --------------------------------------------------------------------------------------

    def describe(self, offer: Offer) -> Described:
        offer = taking_pairs(offer)
        if not offer.models:
            return Described()
        operation = {
            "operationId": f"rerank_v{self.version}",
            "tags": ["Other clients"],
            "summary": "Rank documents by a query, as Cohere, Jina and vLLM do",
            "description": "All documents are scored, or the answer is an error. The best come first.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("RerankRequest"),
            "responses": {
                "200": answered("The ranks", "Ranked", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }
        schemas = {
            "RerankRequest": body_by_model(offer, partial(_request_schema, offer)),
            "Ranked": _schema(offer),
            "RerankError": object_of({"message": STRING, "detail": STRING, "error": ERROR}),
        }
        return Described({self.path: {"post": operation}}, schemas)

    def describe_errors(self, *statuses: int) -> Part:
        about = "In a shape that these clients know: the same words at three places."
        return {str(status): answered(about, "RerankError", "X-Request-Id") for status in statuses}


class SecondRerank(Rerank):
    """The second version, which is Cohere's."""

    path = "/v2/rerank"
    version = "2"
    gives_documents = False


def _check(said: RerankBody) -> None:
    for name, least in WHOLE.items():
        setattr(said, name, whole(getattr(said, name), name, least))
    if said.rank_fields not in (None, ["text"]):
        raise Unacceptable(
            "'rank_fields' can only be [\"text\"] here: put what is to be ranked into that field"
        )
    check_user(said.user)


def _text(document: bytes) -> bytes:
    """Returns the text of a document, as JSON."""
    if document.startswith(b"{"):
        try:
            document = bytes(_DOCUMENT.decode(document).text)
        except msgspec.ValidationError:
            raise Unacceptable(NO_DOCUMENT) from None
    if not document.startswith(b'"'):
        raise Unacceptable(NO_DOCUMENT)
    return document


def _request_schema(offer: Offer, kind: str, taken: Sequence[str] | None) -> tuple[Part, Sequence[str]]:
    text = input_schema("text", offer.clean)
    document = {"anyOf": [text, object_of({"text": text})]}
    about = f"At most {offer.max_asks}."
    properties = {
        "query": text,
        "documents": {"type": "array", "items": document, "minItems": 1, "description": about},
        "top_n": {"type": ["integer", "null"], "minimum": 0, "maximum": LARGEST},
        "return_documents": {"type": ["boolean", "null"]},
        "rank_fields": {"enum": [["text"], None]},
        **schemas_of(OPTIONS, taken),
        "user": USER,
        **PASSED_OVER,
    }
    return properties, ["query", "documents"]


def _schema(offer: Offer) -> Part:
    count = {"type": "integer", "minimum": 0}
    result = object_of(
        {"index": count, "relevance_score": {"type": "number"}, "document": object_of({"text": STRING})},
        optional=["document"],
    )
    meta = {
        "api_version": object_of({"version": STRING}),
        "tokens": object_of({"input_tokens": count}),
    }
    return object_of(
        {
            "id": STRING,
            "model": {"enum": list(offer.models)},
            "results": {"type": "array", "items": result, "minItems": 1},
            "usage": object_of({"prompt_tokens": count, "total_tokens": count}),
            "meta": object_of(meta),
        }
    )
