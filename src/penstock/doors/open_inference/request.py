"""What a request of the Open Inference Protocol says besides the values of its tensors: the fields of its body,
and its parameters sorted by what becomes of them. The door for inference asks it (`infer.py`).

    timeout              microseconds: the deadline
    binary_data_output   the answer's tensors come in binary
    content_type         what the elements of BYTES are (`rows.py`)
    priority             passed over: the tier is the one of the key
    sequence_…           refused: requests do not depend on those before them
    any other            a parameter for the model
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock.doors.inputs import canonical
from penstock.doors.open_inference.rows import CONTENT_TYPES
from penstock.errors import NoInput, Unacceptable

MOST_TENSORS = 64
SMALL = 4096  # bytes of a body that cannot have many rows of many inputs
MOST_ROWS = 1024  # rows of all inputs, counted together, that are read at once
LONGEST_NAME = 200  # characters
LONGEST_TIMEOUT = 24 * 3600 * 10**6  # microseconds; the gateway allows less

Parameters = dict[str, bool | int | float | str | None]


class InputTensor(msgspec.Struct, forbid_unknown_fields=True):
    """What a body says of one input."""

    name: str
    shape: list[int]
    datatype: str
    parameters: Parameters | None = None
    data: msgspec.Raw = msgspec.Raw()


class RequestedOutput(msgspec.Struct, forbid_unknown_fields=True):
    """What a body says of one output that its client wants."""

    name: str
    parameters: Parameters | None = None


class InferBody(msgspec.Struct, forbid_unknown_fields=True):
    """The body of a request."""

    inputs: list[InputTensor]
    id: str | None = None
    parameters: Parameters | None = None
    outputs: list[RequestedOutput] | None = None
    model_name: str | None = None  # KServe's client says it in the path and here
    model_version: str | None = None


class Output(NamedTuple):
    """One output that a client wants."""

    name: str
    binary: bool


class Asked(NamedTuple):
    """What a request wants, besides its inputs."""

    parameters: bytes  # for the model
    timeout: float | None  # seconds
    binary: bool  # whether outputs that are not named come in binary
    outputs: Sequence[Output] | None  # None: all there are


def asked_of(said: InferBody) -> Asked:
    """Returns what a body wants. Refuses what cannot be done."""
    if not said.inputs:
        raise NoInput("there is no input in the request")
    if len(said.inputs) > MOST_TENSORS or len(said.outputs or ()) > MOST_TENSORS:
        raise Unacceptable(f"a request has at most {MOST_TENSORS} inputs and as many outputs")
    if len({each.name for each in said.inputs}) < len(said.inputs):
        raise Unacceptable("two inputs have the same name")
    if said.id is not None and len(said.id) > LONGEST_NAME:
        raise Unacceptable(f"'id' is longer than {LONGEST_NAME} characters")
    given = said.parameters or {}
    binary = given.get("binary_data_output") is True
    outputs = None
    if said.outputs:
        for output in said.outputs:
            check_name(output.name, "output")
            _check_options(output.parameters or {})
        outputs = [
            Output(each.name, (each.parameters or {}).get("binary_data", binary) is True)
            for each in said.outputs
        ]
    return Asked(parameters_of(given), timeout_of(given), binary, outputs)


def check_name(name: str, what: str) -> None:
    if not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        raise Unacceptable(f"the name of an {what} must be 1 to {LONGEST_NAME} printable characters")


def _check_options(options: Mapping[str, object]) -> None:
    """Refuse options of an output that would change it and are not known here."""
    for name, value in options.items():
        if name not in ("binary_data", "content_type") and value not in (0, False, None):
            raise Unacceptable(f"an output cannot have the parameter {name[:50]!r}")


def timeout_of(given: Mapping[str, object]) -> float | None:
    """Returns the time limit in seconds; None if there is none."""
    said = given.get("timeout")
    if said is None or said == 0:
        return None
    if type(said) is not int or said < 0:
        raise Unacceptable("the parameter 'timeout' must be a whole number of microseconds")
    return min(said, LONGEST_TIMEOUT) / 1e6


def content_type_of(own: Mapping[str, object] | None, given: Mapping[str, object] | None) -> str:
    """Returns the content type of an input, its own or that of the request; empty if there is none."""
    said = (own or {}).get("content_type") or (given or {}).get("content_type") or ""
    if said == "":
        return ""
    if said not in CONTENT_TYPES:
        raise Unacceptable(f"'content_type' must be one of {', '.join(CONTENT_TYPES)}")
    return str(said)


# Triton's client asks with the last of them which answer in a stream is the last to its request: here each is.
_FINAL = "triton_enable_empty_final_response"
_OURS = ("timeout", "binary_data_output", "content_type", "priority", _FINAL)
_SEQUENCE = ("sequence_id", "sequence_start", "sequence_end")


def parameters_of(given: Mapping[str, object]) -> bytes:
    """Returns the parameters for the model."""
    for name in _SEQUENCE:
        if given.get(name) not in (None, 0, False, ""):
            raise Unacceptable(
                f"the parameter {name!r} is not served: requests do not depend on each other here"
            )
    ours = {*_OURS, *_SEQUENCE}
    others = {name: value for name, value in given.items() if name not in ours and value is not None}
    return canonical(msgspec.json.encode(others)) if others else b""
