"""Sends inputs that stand more than once in a batch of a deterministic model to its backend once.

Gateways that know nothing of each other send the same, and tasks are not gathered by any. Tenants whose answers
are kept apart are kept apart here too.
"""

from collections.abc import Awaitable, Callable, Hashable
from dataclasses import replace

from penstock.errors import BatchRejected
from penstock.types import Batch, Request, Result

Run = Callable[[Batch], Awaitable[Result]]  # how the backend is given a batch
Sameness = Callable[[Request], Hashable]  # two requests of which it says the same have the same output


async def run_once_each(run: Run, batch: Batch, sameness: Sameness) -> Result:
    if len({request.input for request in batch.requests}) == batch.size:  # the usual case, soon seen
        return await run(batch)
    places: dict[Hashable, int] = {}
    where = [places.setdefault(sameness(request), len(places)) for request in batch.requests]
    if len(places) == batch.size:
        return await run(batch)
    firsts = [batch.requests[where.index(place)] for place in range(len(places))]
    result = await run(replace(batch, requests=firsts))
    if len(result.outputs) != len(firsts):
        raise BatchRejected(f"the backend gave {len(result.outputs)} outputs for {len(firsts)} inputs")
    result.outputs = [result.outputs[place] for place in where]
    result.executed = result.executed or len(firsts)
    failures = result.failures
    if failures:
        result.failures = {n: failures[place] for n, place in enumerate(where) if place in failures}
    return result
