"""The form that an input has on its way from the door to the function: JSON, or bytes that are not JSON. Doors make
it. The processes of functions read it, and so does whoever shows or weighs an input: the admin plane (`told`), and
the rules of costs (`from_config/input_cost.py`).

    "text"  {"any": "JSON"}      JSON as it came
    ␀ bytes                      the input is these bytes
    ␁ MessagePack                a value that has bytes, or tensors (`tensors.py`), somewhere in it

No JSON begins with either of these bytes. So a payload is plain bytes for all code in between, which can keep,
compare and send it without knowing its form.

This module imports nothing of Penstock but `tensors`, because it is imported in the processes of user code too.
"""

from base64 import b64encode
from typing import Any

import msgspec

from penstock.tensors import tensor_of

RAW, PACKED = b"\x00", b"\x01"  # the two first bytes by which the forms that are not JSON are known

_PACKED = PACKED[0]
_from_json = msgspec.json.Decoder().decode
_from_packed = msgspec.msgpack.Decoder(ext_hook=tensor_of).decode


def of_bytes(data: bytes) -> bytes:
    """The payload of an input that is these bytes."""
    return RAW + data


def of_packed(value: bytes) -> bytes:
    """The payload of a value that is written in MessagePack."""
    return PACKED + value


def is_json(payload: bytes) -> bool:
    return payload[0] > _PACKED


def value_of(payload: bytes) -> Any:
    """The value that a function is called with."""
    if payload[0] > _PACKED:
        return _from_json(payload)
    rest = memoryview(payload)[1:]
    return _from_packed(rest) if payload[0] == _PACKED else bytes(rest)


def told(payload: bytes) -> dict[str, str]:
    """The payload as the admin plane shows it: JSON as it is, anything else in base64."""
    if not payload or is_json(payload):
        return {"input": payload.decode(errors="replace")}
    encoding = "base64" if payload[:1] == RAW else "base64 of MessagePack"
    return {"input": b64encode(payload[1:]).decode(), "input_encoding": encoding}
