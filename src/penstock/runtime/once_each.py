"""Inputs that stand more than once in a batch of a deterministic model reach its backend once (SPEC B7).

Gateways that know nothing of each other send the same, and so do tenants whose answers are kept apart. They share a
batch all the same, and to the backend an input is an input.
"""

from dataclasses import replace

from penstock.errors import BatchRejected
from penstock.ports import Backend
from penstock.types import Batch, Result


async def run_once_each(backend: Backend, batch: Batch) -> Result:
    places: dict[bytes, int] = {}
    where = [places.setdefault(request.input, len(places)) for request in batch.requests]
    if len(places) == batch.size:
        return await backend.run(batch)
    firsts = [batch.requests[where.index(place)] for place in range(len(places))]
    result = await backend.run(replace(batch, requests=firsts))
    if len(result.outputs) != len(firsts):
        raise BatchRejected(f"the backend gave {len(result.outputs)} outputs for {len(firsts)} inputs")
    result.outputs = [result.outputs[place] for place in where]
    result.executed = len(firsts)
    return result
