"""The door `/v1/embeddings`, as OpenAI has it, so that its clients work unchanged. The data plane calls it, as
every door.

    {"model": "m", "input": ["one", "two"]}  ──►  {"object": "list", "data": [{"index": 0, "embedding": […]}, …], …}

Each text is a request of its own, and the model's output for it must be a list of numbers. OpenAI's client for
Python asks for `"encoding_format": "base64"` of its own accord: little-endian float32.
"""

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from math import copysign, inf
from struct import pack
from typing import Literal

import msgspec

from penstock.doors import texts_or_tokens
from penstock.doors.by_model import body_by_model
from penstock.doors.door import Call, Inside
from penstock.doors.every_answer import usual_of
from penstock.doors.inputs import BACKSLASH, DELETE, QUOTE, check_unicode, decode
from penstock.doors.openai_shape import (
    ERROR_SCHEMA,
    ERRORS,
    PASSED_OVER,
    USER,
    OpenAIDoor,
    tokens_of,
)
from penstock.doors.openapi_parts import (
    QUOTA_FIELDS,
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
from penstock.output import without_note
from penstock.types import Ask, Reply

NO_EMBEDDING = "gives no embeddings: its output is not a list of numbers"
OPTIONS = {"dimensions": Option((), {"type": "integer", "minimum": 1, "maximum": LARGEST})}


class EmbeddingsBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body at `/v1/embeddings`."""

    input: msgspec.Raw
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | float | None = None  # as JSON, 2e3 is a whole number too
    user: str | None = None
    service_tier: str | None = None  # passed over, as the next: the tier is the one of the key
    priority: int | float | None = None


_BODY = msgspec.json.Decoder(EmbeddingsBody)
_decode_body = _BODY.decode
_decode_numbers = msgspec.json.Decoder(list[float]).decode

BEGINS_LIST, BEGINS_OBJECT, IN_TRUE_AND_NULL, IN_FALSE = b"[{ul"  # numbers, as above
LARGEST_FLOAT32 = (2 - 2**-23) * 2.0**127


class Embeddings(OpenAIDoor):
    """Takes one text or several."""

    path = "/v1/embeddings"

    def __init__(self, inside: Inside) -> None:
        super().__init__(inside)
        self._kinds = inside.gateway.kinds
        self._inputs = TextsOrTokens(inside, "input")
        self._answers = {
            None: partial(self._embedded, _in_json),
            "float": partial(self._embedded, _in_json),
            "base64": partial(self._embedded, _in_base64),
        }

    def read_one(self, body: bytes) -> Call | None:
        if not body.isascii():
            return None
        try:
            said = _decode_body(body)
        except (msgspec.MsgspecError, RecursionError):
            return None  # `read` words the refusal
        payload = bytes(said.input)
        if (  # what nearly all clients send is understood in a few steps, as at the native door
            said.dimensions is None
            and said.user is None
            and payload[0] == QUOTE
            and BACKSLASH not in payload
            and DELETE not in payload
            and said.model in self._kinds
        ):
            return Call((Ask(payload, said.model),), self._answers[said.encoding_format])
        return None

    def read(self, body: bytes, headers: Headers) -> Steps[Sequence[Ask]]:
        ascii_only = yield from check_unicode(body)
        said = decode(_BODY, body, is_unicode=True)
        said.dimensions = whole(said.dimensions, "dimensions", 1)
        check_user(said.user)
        parameters = parameters_of(said, OPTIONS)
        inputs = yield from self._inputs.read(bytes(said.input), said.model, ascii_only=ascii_only)
        asks = [Ask(each, said.model, parameters, said.user) for each in inputs]
        return Call(asks, self._answers[said.encoding_format])

    def answer(self, replies: Sequence[Reply], now: float) -> Answer:
        return self._embedded(_in_json, replies, now)

    def _embedded(
        self, write: Callable[[bytes], bytes | None], replies: Sequence[Reply], now: float
    ) -> Answer:
        """`write`: makes an embedding of an output; None if the output is none."""
        items = []
        for index, reply in enumerate(replies):
            embedding = write(without_note(reply.output)[0])
            if embedding is None:
                return self.unfit(reply, NO_EMBEDDING)
            items.append(b'{"object":"embedding","index":%d,"embedding":%b}' % (index, embedding))
        request, tokens = replies[0].request, tokens_of(replies)
        end = f'],"model":"{request.model}","usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}'
        told = usual_of(request, now)
        return Answer(200, JSON_ALONE, b",".join(items), told, b'{"object":"list","data":[', end.encode())

    def describe(self, offer: Offer) -> Described:
        operation = {
            "operationId": "embeddings",
            "tags": ["Other clients"],
            "summary": "Embed texts, as OpenAI does",
            "description": "One embedding for each text, in their order: all of them, or an error.",
            "parameters": [X_REQUEST_ID, TRACEPARENT, TRACESTATE],
            "requestBody": sent("EmbeddingsRequest"),
            "responses": {
                "200": answered("The embeddings", "Embeddings", "X-Request-Id", "traceparent", *QUOTA_FIELDS),
                **self.describe_errors(*ERRORS),
            },
        }

        def request(kind: str, taken: Sequence[str] | None) -> tuple[Part, Sequence[str]]:
            properties = {
                "input": texts_or_tokens.schema(kind, offer.clean, offer.max_asks),
                "encoding_format": {"enum": ["float", "base64", None]},
                **schemas_of(OPTIONS, taken),
                "user": USER,
                **PASSED_OVER,
            }
            return properties, ["input"]

        return Described(
            {self.path: {"post": operation}},
            {
                "EmbeddingsRequest": body_by_model(offer, request),
                "Embeddings": _schema(offer),
                **ERROR_SCHEMA,
            },
        )


def check_user(user: str | None) -> None:
    """Refuse a user whose name is no fit name of a client."""
    if user is not None and not 0 < len(user) <= 128:
        raise Unacceptable("'user' must be 1 to 128 characters long")


def _in_json(output: bytes) -> bytes | None:
    return output if _has_only_numbers(output) or _numbers(output) is not None else None


def _has_only_numbers(output: bytes) -> bool:
    """Whether an output, which is JSON, shows at a glance that it is a list of numbers: no text, no object, no list
    and none of true, false and null is in it. To decode it would take thirty times as long."""
    return (
        output[0] == BEGINS_LIST
        and QUOTE not in output
        and BEGINS_OBJECT not in output
        and output.rfind(b"[") == 0
        and IN_TRUE_AND_NULL not in output
        and IN_FALSE not in output
    )


def _in_base64(output: bytes) -> bytes | None:
    numbers = _numbers(output)
    return None if numbers is None else b'"%b"' % b64encode(_packed(numbers))


def _packed(numbers: Sequence[float]) -> bytes:
    form = f"<{len(numbers)}f"
    try:
        return pack(form, *numbers)
    except OverflowError:  # a float32 that is too large is infinite
        return pack(
            form, *(each if abs(each) <= LARGEST_FLOAT32 else copysign(inf, each) for each in numbers)
        )


def _numbers(output: bytes) -> list[float] | None:
    try:
        return _decode_numbers(output)
    except msgspec.MsgspecError:
        return None


def _schema(offer: Offer) -> Part:
    embedding = {
        "anyOf": [
            {"type": "array", "items": {"type": "number"}},
            {"type": "string", "contentEncoding": "base64", "description": "Little-endian float32."},
        ]
    }
    count = {"type": "integer", "minimum": 0}
    return object_of(
        {
            "object": {"const": "list"},
            "data": {
                "type": "array",
                "items": object_of(
                    {"object": {"const": "embedding"}, "index": count, "embedding": embedding}
                ),
            },
            "model": {"enum": list(offer.models)},
            "usage": object_of({"prompt_tokens": count, "total_tokens": count}),
        }
    )
