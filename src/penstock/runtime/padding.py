"""Fills a batch up to an allowed size, right before its backend has it. A slot pads each batch with it, and cuts
the result to what was asked.

The last input is repeated, with its parameters. Nobody asked for the repetitions, so their outputs and failures are
thrown away here. Others are told only how many there were.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeVar

from msgspec import Raw, json

from penstock.core.sizes import Sizes
from penstock.errors import BatchRejected
from penstock.ports import Backend
from penstock.types import Batch, Result

T = TypeVar("T")

_each = json.Decoder(list[Raw]).decode


class Padding:
    def __init__(self, sizes: Sizes, *, per_item: bool) -> None:
        """`per_item`: each input has parameters of its own, and the batch a list of them."""
        self._sizes = sizes
        self._per_item = per_item

    async def run(self, backend: Backend, batch: Batch) -> Result:
        """Have the backend run a batch, padded. Returns the result without the padding."""
        filled = self.filled(batch)
        result = await backend.run(filled)
        return result if filled is batch else trimmed(result, batch.size, filled.size)

    def filled(self, batch: Batch) -> Batch:
        """The batch as its backend is given it."""
        missing = int(self._sizes.padded(batch.size)) - batch.size
        if not missing:
            return batch
        parameters = batch.parameters
        if self._per_item and parameters:
            parameters = b"[" + b",".join(_with_last_repeated(_each(parameters), missing)) + b"]"
        requests = _with_last_repeated(batch.requests, missing)
        return replace(batch, requests=requests, parameters=parameters)


def trimmed(result: Result, size: int, rows: int) -> Result:
    """The result of a padded batch without its padding. `size`: how many inputs were asked. `rows`: how many were
    run. Raises BatchRejected if outputs are missing, or there are too many: it is then not known which output
    belongs to which input."""
    if len(result.outputs) != rows:
        padding = rows - size
        raise BatchRejected(
            f"the backend gave {len(result.outputs)} outputs for {rows} inputs, of which {padding} were padding"
        )
    result.outputs = result.outputs[:size]
    result.executed, result.padding = rows, rows - size
    if result.failures:
        result.failures = {row: failure for row, failure in result.failures.items() if row < size}
    return result


def _with_last_repeated(items: Sequence[T], times: int) -> list[T]:
    return [*items, *[items[-1]] * times]
