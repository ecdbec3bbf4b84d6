"""Sends inputs that stand more than once in a batch of a deterministic model to its backend once. A slot over a bus
runs each batch of such a model through it.

Such batches occur because several gateways may send the same input, and tasks over a bus share no flight. Where
each tenant has its own answers, requests of two tenants do not count as the same.
"""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace

from penstock.errors import BatchRejected
from penstock.types import Batch, Request, Result

Run = Callable[[Batch], Awaitable[Result]]  # how the backend is given a batch
# Two requests for which this returns equal values have the same output.
Sameness = Callable[[Request], Hashable]


async def run_once_each(run: Run, batch: Batch, sameness: Sameness) -> Result:
    """Run a batch without the inputs that stand in it again. Returns the result for the whole batch."""
    if len({request.input for request in batch.requests}) == batch.size:  # the usual case, soon seen
        return await run(batch)
    rows: dict[Hashable, int] = {}  # where the input of each kind of request is in the batch that is run
    where = [rows.setdefault(sameness(request), len(rows)) for request in batch.requests]
    if len(rows) == batch.size:
        return await run(batch)
    firsts = [batch.requests[where.index(row)] for row in range(len(rows))]
    result = await run(replace(batch, requests=firsts))
    if len(result.outputs) != len(firsts):
        raise BatchRejected(f"the backend gave {len(result.outputs)} outputs for {len(firsts)} inputs")
    result.outputs = [result.outputs[row] for row in where]
    result.executed = result.executed or len(firsts)
    failures = result.failures
    if failures:
        result.failures = {n: failures[row] for n, row in enumerate(where) if row in failures}
    return result
