"""What a client may say, and how it becomes an ask. Fields nobody knows are refused by name."""

import re
from functools import lru_cache
from typing import TypeVar

import msgspec

from penstock.doors import clean
from penstock.doors.steps import Steps, at_once
from penstock.edge.heads import NO_HEADERS, Headers
from penstock.errors import Malformed, Unacceptable, UnsupportedMedia
from penstock.ports import Gateway
from penstock.types import Ask

REQUEST_ID = re.compile(rb"[A-Za-z0-9._:+=@-]{1,128}")
TRACESTATE = re.compile(rb"[!-~](?:[ -~]{0,510}[!-~])?")
UNTRACED: tuple[str | None, str | None] = (None, None)
TRACEPARENT = re.compile(rb"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]{0,256})?")
MOST_PARAMETERS = 16 * 1024  # bytes
REMEMBERED_PARAMETERS = (
    1024  # bytes: longer ones are read each time, so that nobody can have many of them kept
)
DEEPEST_PARAMETERS = 64
LONGEST_QUOTE = 200  # characters of what a client sent, told to that client
LONGEST_MS = 24 * 3600 * 1000  # the gateway allows less; a number with 400 digits must not reach arithmetic


class InferenceBody(msgspec.Struct, forbid_unknown_fields=True):
    input: msgspec.Raw
    model: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()
    client_id: str | None = None
    timeout_ms: int | float | None = None  # 2e3 is a whole number too


class ShortBody(msgspec.Struct, forbid_unknown_fields=True):
    input: msgspec.Raw


Body = TypeVar("Body", InferenceBody, ShortBody)

_FULL = msgspec.json.Decoder(InferenceBody)
_decode_full = _FULL.decode
_SHORT = msgspec.json.Decoder(ShortBody)


QUOTE, BACKSLASH, DELETE = b'"\\\x7f'  # as numbers, which bytes are searched for in a fifth of the time


class Reader:
    """Turns bodies into asks, by the limits of this server."""

    def __init__(self, gateway: Gateway, *, max_depth: int, control_characters: str) -> None:
        self._kind_of = gateway.kind_of
        self._kinds = gateway.kinds
        self._max_depth = max_depth
        self._controls = control_characters

    def full(self, body: bytes, headers: Headers) -> Ask:
        ascii_only = body.isascii()
        return self._ask(_decode(_FULL, body, ascii_only), headers, ascii_only)

    def full_in_steps(self, body: bytes, headers: Headers) -> Steps[Ask]:
        """As `full`, for a body that is large."""
        ascii_only = yield from _check_unicode(body)
        said = _decode(_FULL, body, is_unicode=True)
        yield
        _check(said)
        payload = yield from self._look(bytes(said.input), said.model, ascii_only)
        return _asked(said, payload, headers)

    def _ask(self, said: InferenceBody, headers: Headers, ascii_only: bool) -> Ask:
        _check(said)
        return _asked(said, self._payload(bytes(said.input), said.model, ascii_only), headers)

    def plain(self, body: bytes) -> Ask:
        """As `full` where the head has nothing to tell: what nearly all send is understood in a few steps."""
        if body.isascii():
            try:
                said = _decode_full(body)
            except (msgspec.MsgspecError, RecursionError) as exc:
                raise _in_words(exc) from None
            usual = said.client_id is None and said.timeout_ms is None and not said.parameters
            if usual and said.model in self._kinds:  # a plain string fits every kind of input
                payload = bytes(said.input)
                if payload[0] == QUOTE and BACKSLASH not in payload and DELETE not in payload:
                    return Ask(payload, said.model)
            return self._ask(said, NO_HEADERS, True)
        return self.full(body, NO_HEADERS)

    def short(self, body: bytes, headers: Headers) -> Ask:
        ascii_only = body.isascii()
        said = _decode(_SHORT, body, ascii_only)
        return _asked_briefly(self._payload(bytes(said.input), None, ascii_only), headers)

    def short_in_steps(self, body: bytes, headers: Headers) -> Steps[Ask]:
        """As `short`, for a body that is large."""
        ascii_only = yield from _check_unicode(body)
        said = _decode(_SHORT, body, is_unicode=True)
        yield
        return _asked_briefly((yield from self._look(bytes(said.input), None, ascii_only)), headers)

    def _payload(self, payload: bytes, model: str | None, ascii_only: bool) -> bytes:
        """As `_look`, at once. What is harmless at first sight needs no steps."""
        kind = self._kind_of(model)
        if payload[0] == QUOTE or (kind != "text" and clean.is_harmless(payload, self._max_depth)):
            if ascii_only and BACKSLASH not in payload and DELETE not in payload:
                return payload
            if clean.find_control(payload) is None:
                return payload
        return at_once(self._look(payload, model, ascii_only))

    def _look(self, payload: bytes, model: str | None, ascii_only: bool) -> Steps[bytes]:
        if self._kind_of(model) == "text":
            if not payload.startswith(b'"'):
                raise Unacceptable("'input' must be a string: this model takes text")
        elif payload[0] != QUOTE:  # a string is not nested
            yield from clean.check_depth(payload, self._max_depth)
            yield from clean.check_numbers(payload)
        if ascii_only and BACKSLASH not in payload and DELETE not in payload:
            return payload  # no control character can be in it
        return (yield from clean.clean_controls(payload, self._controls))


def _check(said: InferenceBody) -> None:
    if said.client_id is not None and not 0 < len(said.client_id) <= 128:
        raise Unacceptable("'client_id' must be 1 to 128 characters long")
    timeout = said.timeout_ms
    if timeout is not None and (timeout <= 0 or timeout % 1):
        raise Unacceptable("'timeout_ms' must be a whole number greater than 0")


def _asked(said: InferenceBody, payload: bytes, headers: Headers) -> Ask:
    timeout = said.timeout_ms
    return Ask(
        payload,
        said.model,
        canonical(bytes(said.parameters)) if said.parameters else b"",
        said.client_id,
        None if timeout is None else min(timeout, LONGEST_MS) / 1000.0,
        request_id(headers[b"x-request-id"]) if b"x-request-id" in headers else None,
        *(trace(headers) if b"traceparent" in headers else UNTRACED),
    )


def _asked_briefly(payload: bytes, headers: Headers) -> Ask:
    traceparent, tracestate = trace(headers)
    return Ask(
        payload,
        request_id=request_id(headers.get(b"x-request-id")),
        traceparent=traceparent,
        tracestate=tracestate,
    )


def _check_unicode(body: bytes) -> Steps[bool]:
    """Whether there is nothing but ASCII in it."""
    ascii_only = body.isascii()
    if not ascii_only:
        clean.check_unicode(body)
        yield
    return ascii_only


def _decode(decoder: "msgspec.json.Decoder[Body]", body: bytes, is_unicode: bool) -> Body:
    """`is_unicode`: whether it is known to be."""
    if not is_unicode:
        clean.check_unicode(body)
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, RecursionError) as exc:
        raise _in_words(exc) from None


def _in_words(exc: Exception) -> Unacceptable | Malformed:
    if isinstance(exc, msgspec.ValidationError):
        return Unacceptable(_plain(str(exc)))
    if isinstance(exc, RecursionError):
        return Unacceptable("the body is nested too deeply")
    return Malformed(f"the body is not JSON: {_plain(str(exc))}")


def _plain(message: str) -> str:
    """msgspec's words, in the quotes the other messages have, and without its path syntax. They may quote the name
    of a field, which is as long as its sender likes."""
    return message[:LONGEST_QUOTE].replace("`", "'").replace("$.", "")


def check_type(headers: Headers) -> None:
    kind = headers.get(b"content-type")
    if kind != b"application/json" and kind is not None:
        name, _, parameter = kind.lower().partition(b";")
        charset = parameter.strip().replace(b'"', b"")
        if name.strip() != b"application/json" or charset not in (b"", b"charset=utf-8"):
            raise UnsupportedMedia("send application/json in UTF-8")
    if b"content-encoding" in headers and headers[b"content-encoding"] != b"identity":
        raise UnsupportedMedia("send the body uncompressed: Content-Encoding is not accepted")


def request_id(given: bytes | None) -> str | None:
    """The client's own, if it is one that can stand in headers, logs and JSON as it is."""
    return given.decode() if given is not None and REQUEST_ID.fullmatch(given) else None


def trace(headers: Headers) -> tuple[str | None, str | None]:
    """traceparent and tracestate. The second means nothing without the first."""
    parent, state = headers.get(b"traceparent"), headers.get(b"tracestate")
    if parent is None or not TRACEPARENT.fullmatch(parent):
        return UNTRACED
    return parent.decode(), state.decode() if state is not None and TRACESTATE.fullmatch(state) else None


def canonical(parameters: bytes) -> bytes:
    """The same parameters in the same bytes, so that they can share a lane."""
    return _remembered(parameters) if len(parameters) <= REMEMBERED_PARAMETERS else _read(parameters)


def _read(parameters: bytes) -> bytes:
    if len(parameters) > MOST_PARAMETERS:
        raise Unacceptable(f"'parameters' are longer than {MOST_PARAMETERS} bytes")
    at_once(clean.check_depth(parameters, DEEPEST_PARAMETERS, "parameters", ""))
    value = clean.decode(parameters, "parameters")
    if value is None:
        return b""
    if not isinstance(value, dict):
        raise Unacceptable("'parameters' must be an object")
    return msgspec.json.encode(value, order="sorted") if value else b""


_remembered = lru_cache(maxsize=1024)(_read)
