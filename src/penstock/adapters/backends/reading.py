"""From the JSON of a batch to what a function is called with.

The door lets in only what can be read here. Should anything else come, it fails its own request, and the function
is called with the others.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from penstock.adapters.backends.frames import Work
from penstock.adapters.backends.signature import Unfit
from penstock.adapters.backends.words import describe

Failures = list[tuple[int, str, str]]  # inputs that have no output, as `frames.Done` has them

decode_json = msgspec.json.Decoder().decode
decode_text = msgspec.json.Decoder(str).decode


class Reading(NamedTuple):
    """What of a batch can be read, and what cannot."""

    inputs: list[Any]
    parameters: Any
    unread: Failures

    def among_all(self, encoded: list[bytes], failed: Failures) -> tuple[list[bytes], Failures]:
        """Outputs and failures of what was read, each at its place among all inputs."""
        unread = {place for place, _, _ in self.unread}
        count = len(encoded) + len(unread)
        places = [place for place in range(count) if place not in unread]
        outputs = [b""] * count
        for place, output in zip(places, encoded, strict=True):
            outputs[place] = output
        return outputs, sorted([*self.unread, *((places[at], why, words) for at, why, words in failed)])


class Inputs:
    """Reads the batches of one function."""

    def __init__(self, function: str, kind: str, *, per_item: bool) -> None:
        self._function = function
        self._decode: Callable[[bytes], Any] = decode_text if kind == "text" else decode_json
        self._per_item = per_item

    def read(self, work: Work) -> Reading:
        """Raises Unfit if the parameters cannot be read: these the whole batch has in common."""
        try:
            parameters = decode_json(work.parameters) if work.parameters else None
        except Exception as error:
            raise Unfit(f"was not called, its parameters cannot be read ({type(error).__name__})") from None
        if self._per_item and parameters is None:
            parameters = [{} for _ in work.inputs]
        try:
            return Reading(list(map(self._decode, work.inputs)), parameters, [])
        except Exception:
            return self._read_each(work, parameters)

    def _read_each(self, work: Work, parameters: Any) -> Reading:
        inputs, own, unread = [], [], []
        for place, payload in enumerate(work.inputs):
            try:
                inputs.append(self._decode(payload))
                own.append(place)
            except Exception as error:
                kind = type(error).__name__
                why = f"{self._function} was not called for this input, which cannot be read ({kind})"
                unread.append((place, why, describe(error)))
        if self._per_item:
            parameters = [parameters[place] for place in own]
        return Reading(inputs, parameters, unread)
