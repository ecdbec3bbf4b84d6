"""Makes the arguments of a function from the payloads of a batch. `contract.py` calls it in the function's process,
before each batch. Pure.

The server accepts only what can be read here. An input that cannot be read all the same fails its own request, and
the function is called with the others.
"""

from collections.abc import Callable, Container
from typing import Any, NamedTuple

import msgspec

from penstock.adapters.backends.foreign_text import describe
from penstock.adapters.backends.frames import Work
from penstock.adapters.backends.signature import Unfit
from penstock.payload import is_json, value_of

Failures = list[tuple[int, str, str]]  # inputs without an output, as in `frames.Done.failed`

decode_json = msgspec.json.Decoder().decode
decode_text = msgspec.json.Decoder(str).decode


class Reading(NamedTuple):
    """The inputs of a batch that could be read, its parameters, and the inputs that could not be read."""

    inputs: list[Any]
    parameters: Any
    unread: Failures
    binary: Container[int] = ()  # the positions, among `inputs`, of those that were not JSON

    def among_all(self, encoded: list[bytes], failed: Failures) -> tuple[list[bytes], Failures]:
        """Returns outputs and failures at their positions among all inputs of the batch; those that could not be
        read are failures too."""
        unread = {position for position, _, _ in self.unread}
        count = len(encoded) + len(unread)
        read = [position for position in range(count) if position not in unread]
        outputs = [b""] * count
        for position, output in zip(read, encoded, strict=True):
            outputs[position] = output
        return outputs, sorted([*self.unread, *((read[at], why, details) for at, why, details in failed)])


class Inputs:
    """Reads the batches of one function."""

    def __init__(self, function: str, kind: str, *, per_item: bool) -> None:
        self._function = function
        self._decode: Callable[[bytes], Any] = decode_text if kind == "text" else decode_json
        self._per_item = per_item

    def read(self, work: Work) -> Reading:
        """Reads a batch. Raises Unfit if the parameters cannot be read, because the whole batch has them in
        common."""
        try:
            parameters = decode_json(work.parameters) if work.parameters else None
        except Exception as error:
            raise Unfit(f"was not called, its parameters cannot be read ({type(error).__name__})") from None
        if self._per_item and parameters is None:
            parameters = [{} for _ in work.inputs]
        try:
            return Reading(list(map(self._decode, work.inputs)), parameters, [])
        except Exception:
            return self._read_each(work, parameters)  # one of the inputs is not JSON, or cannot be read

    def _read_each(self, work: Work, parameters: Any) -> Reading:
        inputs, read, unread = list[Any](), list[int](), Failures()
        binary = set[int]()
        for position, payload in enumerate(work.inputs):
            try:
                if is_json(payload):
                    inputs.append(self._decode(payload))
                else:
                    inputs.append(value_of(payload))
                    binary.add(len(read))
                read.append(position)
            except Exception as error:
                kind = type(error).__name__
                why = f"{self._function} was not called for this input, which cannot be read ({kind})"
                unread.append((position, why, describe(error)))
        if self._per_item:
            parameters = [parameters[position] for position in read]
        return Reading(inputs, parameters, unread, binary)
