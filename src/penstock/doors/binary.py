"""Reads bodies of `/v1/inference` that are not JSON: bytes that are the input themselves, and MessagePack. The
native door hands such bodies over to it (`native.py`).

    application/octet-stream    the body is the input; all else is in the query: ?model=…&timeout_ms=…
    application/msgpack         the object that would be sent as JSON; bytes in it are bytes for the function

Only functions take bytes. For other models a body with bytes is refused, and the refusal says what to send instead.
"""

import msgspec

from penstock.doors import packed
from penstock.doors.door import Inside
from penstock.doors.inputs import DEEPEST_PARAMETERS, MOST_PARAMETERS, Inputs, inputs_of
from penstock.doors.native_body import InferenceBody, asked, check
from penstock.doors.steps import Steps
from penstock.doors.wishes import Media, read_query
from penstock.doors.wrong_body import in_words
from penstock.errors import Unacceptable, UnsupportedMedia
from penstock.payload import is_json, of_bytes
from penstock.types import Ask

QUERY = ("model", "parameters", "client_id", "timeout_ms")
INSTEAD = "send application/json; bytes can stand in it as text in base64, if the model reads that"


_packed = msgspec.msgpack.Decoder(InferenceBody).decode


class Binary:
    """Makes an ask of such a body."""

    def __init__(self, inside: Inside) -> None:
        self._gateway = inside.gateway
        self._limits = inside.limits
        self._inputs: Inputs = inputs_of(inside)

    def read(self, media: Media, body: bytes, query: str) -> Steps[Ask]:
        return self._octets(body, query) if media is Media.OCTETS else self._msgpack(body)

    def _octets(self, body: bytes, query: str) -> Steps[Ask]:
        given = read_query(query, *QUERY)
        timeout = given.get("timeout_ms")
        if timeout is not None and not (timeout.isascii() and timeout.isdigit() and len(timeout) < 10):
            raise Unacceptable("'timeout_ms' must be a whole number of milliseconds")
        said = InferenceBody(
            msgspec.Raw(),
            given.get("model"),
            msgspec.Raw(_json(given.get("parameters", ""))),
            given.get("client_id"),
            None if timeout is None else int(timeout),
        )
        if not self._gateway.takes_bytes(said.model):
            raise UnsupportedMedia(f"this model takes no bytes: {INSTEAD}")
        yield
        check(said)
        return asked(said, of_bytes(body))

    def _msgpack(self, body: bytes) -> Steps[Ask]:
        try:
            said = _packed(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as exc:
            raise in_words(exc, InferenceBody.__struct_fields__, "MessagePack") from None
        yield
        check(said)
        limits = self._limits
        payload = yield from packed.input_of(bytes(said.input), limits.max_depth, limits.control_characters)
        if is_json(payload):
            yield
            payload = yield from self._inputs.check_in_steps(
                payload, said.model, ascii_only=payload.isascii()
            )
        elif not self._gateway.takes_bytes(said.model):
            raise Unacceptable(f"'input' holds bytes, and this model takes none: {INSTEAD}")
        if said.parameters:
            given = bytes(said.parameters)
            if len(given) > MOST_PARAMETERS:
                raise Unacceptable(f"'parameters' are longer than {MOST_PARAMETERS} bytes")
            said.parameters = msgspec.Raw((yield from packed.parameters_of(given, DEEPEST_PARAMETERS)))
        return asked(said, payload)


def _json(parameters: str) -> bytes:
    """Returns the parameters of a query as bytes. Refuses them if they are not JSON."""
    text = parameters.encode()
    if text:
        try:
            msgspec.json.decode(text, type=msgspec.Raw)
        except (msgspec.MsgspecError, RecursionError):
            raise Unacceptable("the query parameter 'parameters' is not a JSON object") from None
    return text
