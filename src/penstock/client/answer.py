"""Reads what a server answered: an `Answer` with the output, or an error of `errors.py`. `asking.py` calls it with
each answer, and `stream_road.py` with the refusal of a connection. Nothing is sent here.

An output is decoded to what the caller asked for. Bytes that came as text in base64 are bytes again.
"""

import time
from base64 import b64decode
from collections.abc import Callable, Hashable
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Any, Generic, TypeVar, cast

import msgspec

from penstock.client.connections import Response
from penstock.client.errors import Busy, Failed, InferenceError, Late, Refused

T = TypeVar("T")

SHOWN = 200  # characters of an answer that cannot be understood
MSGPACK = b"application/msgpack"


class Metadata(msgspec.Struct, frozen=True):
    """How the request was executed."""

    queue_ms: float = 0.0
    inference_ms: float = 0.0
    batch_size: int = 0
    model_version: str = ""
    cached: bool = False
    tokens_used: int | None = None
    output_encoding: str | None = None


class Answer(msgspec.Struct, Generic[T], frozen=True):
    """What came of one request."""

    output: T
    request_id: str = ""
    model: str = ""
    latency_ms: float = 0.0  # at the server
    metadata: Metadata = Metadata()


class _Error(msgspec.Struct):
    error: str
    message: str = ""
    request_id: str = ""
    retry_after_ms: float | None = None


class _Task(msgspec.Struct):
    """Where a task stands, as a server says it that makes a task of every request."""

    task_id: str
    status: str
    output: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None
    metadata: Metadata = Metadata()


_ERROR = msgspec.json.Decoder(_Error)
_TASK = msgspec.json.Decoder(_Task)


@lru_cache(maxsize=256)
def _decoders(kind: Any) -> tuple[Callable[[bytes], Any], Callable[[bytes], Any]]:
    wanted = cast(Any, Answer)[kind]
    return msgspec.json.Decoder(wanted).decode, msgspec.msgpack.Decoder(wanted).decode


def read(response: Response, kind: type[T]) -> Answer[T]:
    """Returns the answer. `kind`: the type that its output must have. Raises InferenceError."""
    if response.status != 200:
        raise error_in(response)
    from_json, from_msgpack = _decoders(cast(Hashable, kind))
    packed = _field(response, b"content-type").startswith(MSGPACK)
    try:
        answer: Answer[T] = from_msgpack(response.body) if packed else from_json(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Failed(
            f"the answer is not what was asked for: {error}", status=response.status, request_id=_id(response)
        ) from None
    return answer if packed else _with_bytes(answer)


def task_in(response: Response) -> str:
    """Returns the id of the task that the server made of the request."""
    return _task(response).task_id


def result_in(response: Response, kind: type[T]) -> Answer[T] | None:
    """Returns the answer that is the result of a task; None if the task has not ended. Raises InferenceError."""
    if response.status != 200:
        raise error_in(response)
    task = _task(response)
    if task.status in ("PENDING", "PROCESSING"):
        return None
    if task.status != "SUCCESS":
        said = task.error or _Error(task.status, f"the task ended as {task.status}")
        late = task.status == "EXPIRED"
        raise (Late if late else Failed)(
            said.message, code=said.error, request_id=task.task_id, maybe_run=True
        )
    try:
        output = msgspec.json.decode(task.output, type=kind)
    except msgspec.DecodeError as error:
        raise Failed(f"the output is not what was asked for: {error}", request_id=task.task_id) from None
    return _with_bytes(Answer(output, request_id=task.task_id, metadata=task.metadata))


def _task(response: Response) -> _Task:
    try:
        return _TASK.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Failed(
            f"the server speaks of a task in an unknown way: {error}", status=response.status
        ) from None


def _with_bytes(answer: Answer[T]) -> Answer[T]:
    """Returns the answer with its output as bytes, if it came as text in base64."""
    if answer.metadata.output_encoding == "base64" and isinstance(answer.output, str):
        return msgspec.structs.replace(answer, output=b64decode(answer.output))
    return answer


def error_in(response: Response) -> InferenceError:
    """Returns the error that an answer without an output means."""
    status = response.status
    try:
        said = _ERROR.decode(response.body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        # It is not Penstock that answers so, but something in front of it.
        said = _Error(
            "", f"the server answered {status}: {response.body[:SHOWN].decode(errors='replace').strip()}"
        )
    wait = said.retry_after_ms
    return kind_of(status, said.error)(
        said.message,
        code=said.error,
        status=status,
        request_id=said.request_id or _id(response),
        retry_after=_seconds(_field(response, b"retry-after")) if wait is None else wait / 1000.0,
        again=status in (408, 429, 503) or (status in (502, 504) and not said.error),
        maybe_run=status in (500, 502, 504),
    )


def kind_of(status: int, code: str) -> type[InferenceError]:
    """Returns the class of the error. `status`: of HTTP. `code`: the server's; empty where it gave none."""
    if status in (429, 503):
        return Busy
    if status == 504 and code in ("DEADLINE_EXCEEDED", ""):
        return Late
    if 400 <= status < 500 and code != "CANCELLED":
        return Refused
    return Failed


def _id(response: Response) -> str:
    return _field(response, b"x-request-id").decode("latin-1")


def _field(response: Response, wanted: bytes) -> bytes:
    for name, value in response.fields:
        if len(name) == len(wanted) and name.lower() == wanted:
            return value
    return b""


def _seconds(value: bytes) -> float | None:
    """Reads Retry-After: seconds, or a date."""
    text = value.decode("latin-1").strip()
    if text.isdecimal() and len(text) < 9:
        return float(text)
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time()) if text else None
    except (ValueError, OverflowError):
        return None
