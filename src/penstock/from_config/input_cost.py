"""What an input costs, if that can be told from its bytes. The desk of each model is given such a function, which
the gateway calls with each request; a warm-up counts with it too."""

from collections.abc import Callable

import msgspec

from penstock.payload import is_json

BYTES_PER_TOKEN = 4  # a rule of thumb for English text and common tokenizers; a function can be exact


def cost_of(kind: str) -> Callable[[bytes], float] | None:
    """Returns a function that gives the cost of an input. None for `requests`, where each input costs one, and for
    a user's function, which runs elsewhere (`runtime/sizing.py`)."""
    return {"bytes": _bytes, "characters": _characters, "tokens": _tokens}.get(kind)


def _bytes(payload: bytes) -> float:
    return float(len(payload) if is_json(payload) else len(payload) - 1)


def _characters(payload: bytes) -> float:
    """The characters of a JSON string; of other JSON, those of its text; of bytes that are not JSON, their
    number."""
    if not is_json(payload):
        return _bytes(payload)
    if not payload.startswith(b'"'):
        return float(len(payload.decode()))
    if b"\\" not in payload and payload.isascii():
        return float(len(payload) - 2)
    return float(len(msgspec.json.decode(payload, type=str)))


def _tokens(payload: bytes) -> float:
    return float(max(1, len(payload) // BYTES_PER_TOKEN))
