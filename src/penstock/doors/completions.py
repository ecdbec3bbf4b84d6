"""The door `/v1/completions`, as OpenAI has it, for models that make a text of a text. The data plane calls it, as
every door.

    {"model": "m", "prompt": ["once", "twice"]}  ──►  {"choices": [{"index": 0, "text": "…"}, …], …}

Each prompt is a request of its own. Answers come whole: a request for a stream is refused. The model's output is
the text, or an object with `text` and perhaps `finish_reason`; any other output comes as JSON in the text's place.
"""

import time
from collections.abc import Sequence

import msgspec

from penstock.doors import texts_or_tokens
from penstock.doors.by_model import body_by_model
from penstock.doors.door import Inside
from penstock.doors.embeddings import check_user
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import check_unicode, decode
from penstock.doors.openai_shape import (
    ERROR_SCHEMA,
    ERRORS,
    NULLABLE_STRING,
    PASSED_OVER,
    USER,
    OpenAIDoor,
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
    object_of,
    sent,
)
from penstock.doors.options import LARGEST, Option, parameters_of, schemas_of, whole
from penstock.doors.steps import Steps
from penstock.doors.texts_or_tokens import TextsOrTokens
from penstock.edge.answer import JSON_ALONE, Answer
from penstock.edge.fields import Headers
from penstock.errors import Unacceptable
from penstock.output import in_json
from penstock.types import Ask, Reply

WHOLE = {"max_tokens": (0, LARGEST), "logprobs": (0, 100), "seed": (-(2**53), 2**53)}
NUMBER: Part = {"type": "number"}
OPTIONS = {
    "max_tokens": Option((), {"type": "integer", "minimum": 0, "maximum": LARGEST}),
    "temperature": Option((1,), NUMBER),
    "top_p": Option((1,), NUMBER),
    "stop": Option((), {"anyOf": [STRING, {"type": "array", "items": STRING}]}),
    "presence_penalty": Option((0,), NUMBER),
    "frequency_penalty": Option((0,), NUMBER),
    "logit_bias": Option(({},), {"type": "object", "additionalProperties": NUMBER}),
    "logprobs": Option((), {"type": "integer", "minimum": 0, "maximum": 100}),
    "echo": Option((False,), {"type": "boolean"}),
    "suffix": Option(("",), STRING),
    "seed": Option((), {"type": "integer", "minimum": -(2**53), "maximum": 2**53}),
}


class CompletionsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/v1/completions`."""

    prompt: msgspec.Raw
    model: str | None = None
    max_tokens: int | float | None = None  # as JSON, 2e3 is a whole number too
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: int | float | None = None
    echo: bool | None = None
    suffix: str | None = None
    seed: int | float | None = None
    n: int | float | None = None
    best_of: int | float | None = None
    stream: bool | None = None
    user: str | None = None
    service_tier: str | None = None  # passed over, as the next: the tier is the one of the key
    priority: int | float | None = None


class _Completion(msgspec.Struct):
    """An output that says more than its text."""

    text: str
    finish_reason: str | None = "stop"


_BODY = msgspec.json.Decoder(CompletionsBody)
_TEXT = msgspec.json.Decoder(str)
_COMPLETION = msgspec.json.Decoder(_Completion)


class Completions(OpenAIDoor):
    """Takes one prompt or several."""

    path = "/v1/completions"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._prompts = TextsOrTokens(inside, "prompt")

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        _check(said)
        parameters = parameters_of(said, OPTIONS)
        prompts = yield from self._prompts.read(bytes(said.prompt), said.model, ascii_only=ascii_only)
        return [Ask(each, said.model, parameters, said.user) for each in prompts]

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        request, tokens = replies[0].request, tokens_of(replies)
        said = {
            "id": f"cmpl-{request.request_id}",
            "object": "text_completion",
            "created": int(time.time()),
            "model": request.model,
            "choices": [_choice(index, reply.output) for index, reply in enumerate(replies)],
            "usage": {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens},
        }
        return Answer(200, JSON_ALONE, msgspec.json.encode(said), usual_of(request, now))

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "completions",
            "tags": ["Other clients"],
            "summary": "Complete prompts, as OpenAI does",
            "description": "One text for each prompt, in their order: all of them, or an error. No streams.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("CompletionsRequest"),
            "responses": {
                "200": answered("The texts", "Completions", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }

        def request(kind: str, taken: Sequence[str] | None) -> tuple[Part, Sequence[str]]:
            properties = {
                "prompt": texts_or_tokens.schema(kind, offer.clean, offer.max_asks),
                **schemas_of(OPTIONS, taken),
                "n": {"enum": [1, None]},
                "best_of": {"enum": [1, None]},
                "stream": {"enum": [False, None]},
                "user": USER,
                **PASSED_OVER,
            }
            return properties, ["prompt"]

        return Described(
            {self.path: {"post": operation}},
            {
                "CompletionsRequest": body_by_model(offer, request),
                "Completions": _schema(offer),
                **ERROR_SCHEMA,
            },
        )


def _check(said: CompletionsBody) -> None:
    if said.stream:
        raise Unacceptable("'stream' is not served here: an answer comes whole, so leave it out")
    for name in ("n", "best_of"):
        if getattr(said, name) not in (1, None):
            raise Unacceptable(f"'{name}' can only be 1 here: send the prompt several times instead")
    for name, (least, most) in WHOLE.items():
        setattr(said, name, whole(getattr(said, name), name, least, most))
    check_user(said.user)


def _choice(index: int, output: bytes) -> Part:
    bare, _ = in_json(output)
    made = _completion(bare)
    return {"text": made.text, "index": index, "logprobs": None, "finish_reason": made.finish_reason}


def _completion(output: bytes) -> _Completion:
    try:
        if output.startswith(b"{"):
            return _COMPLETION.decode(output)
        return _Completion(_TEXT.decode(output))
    except msgspec.ValidationError:
        return _Completion(output.decode())


def _schema(offer: Offer) -> Part:
    count = {"type": "integer", "minimum": 0}
    choice = {"text": STRING, "index": count, "logprobs": {"type": "null"}, "finish_reason": NULLABLE_STRING}
    return object_of(
        {
            "id": STRING,
            "object": {"const": "text_completion"},
            "created": count,
            "model": {"enum": list(offer.models)},
            "choices": {"type": "array", "items": object_of(choice)},
            "usage": object_of({"prompt_tokens": count, "completion_tokens": count, "total_tokens": count}),
        }
    )
