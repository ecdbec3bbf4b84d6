"""What a body of `/v1/inference` says, in whatever form it comes: JSON (`native.py`) or not (`binary.py`). Both
check the body with it, and make the ask for the gateway of it."""

import msgspec

from penstock.doors.inputs import canonical
from penstock.errors import Unacceptable
from penstock.types import Ask

# Milliseconds. The gateway allows less, but a number with 400 digits must not get into arithmetic.
LONGEST_MS = 24 * 3600 * 1000


class InferenceBody(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a body."""

    input: msgspec.Raw
    model: str | None = None
    parameters: msgspec.Raw = msgspec.Raw()
    client_id: str | None = None
    timeout_ms: int | float | None = None  # as JSON, 2e3 is a whole number too
    callback_url: str | None = None


def check(said: InferenceBody) -> None:
    """Refuses fields that are not acceptable. The input is checked elsewhere."""
    if said.client_id is not None and not 0 < len(said.client_id) <= 128:
        raise Unacceptable("'client_id' must be 1 to 128 characters long")
    timeout = said.timeout_ms
    if timeout is not None and (timeout <= 0 or timeout % 1):
        raise Unacceptable("'timeout_ms' must be a whole number greater than 0")


def asked(said: InferenceBody, payload: bytes) -> Ask:
    """Returns the ask. `payload`: the checked input."""
    timeout = said.timeout_ms
    return Ask(
        payload,
        said.model,
        canonical(bytes(said.parameters)) if said.parameters else b"",
        said.client_id,
        None if timeout is None else min(timeout, LONGEST_MS) / 1000.0,
        callback=said.callback_url,
    )
