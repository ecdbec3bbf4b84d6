"""What an input costs, if that can be told from its bytes. Whoever makes the desk of a model gives it such a
function (`roles/model.py`, `cluster/announced_desks.py`), and the gateway calls it with each request. A warm-up
counts with it too (`warm_up.py`), and `cluster/worker.py` asks whether a model has one. Pure."""

from collections.abc import Callable

import msgspec

from penstock.payload import is_json

BYTES_PER_TOKEN = 4  # a rule of thumb for English text and common tokenizers; a function can be exact


def cost_of(kind: str) -> Callable[[bytes], float] | None:
    """Returns a function that gives the cost of an input. None for `requests`, where each input costs one, and for
    a user's function, which runs elsewhere (`runtime/sizing.py`). `kind`: what `cost` says of the model."""
    return {"bytes": _bytes, "characters": _characters, "tokens": _tokens}.get(kind)


def _bytes(payload: bytes) -> float:
    return float(len(payload) if is_json(payload) else len(payload) - 1)


def _characters(payload: bytes) -> float:
    """Returns the number of characters of a JSON string. Of other JSON it counts the text, and of an input that is
    not JSON the bytes."""
    if not is_json(payload):
        return _bytes(payload)
    if not payload.startswith(b'"'):
        return float(len(payload.decode()))
    if b"\\" not in payload and payload.isascii():
        return float(len(payload) - 2)
    return float(len(msgspec.json.decode(payload, type=str)))


def _tokens(payload: bytes) -> float:
    return float(max(1, len(payload) // BYTES_PER_TOKEN))
