"""Which trace a call to an endpoint belongs to: the `traceparent` that goes out with it, and the status that comes
back. The backends for endpoints call this with each batch (`http.py`, `grpc.py`)."""

from collections.abc import Mapping

from penstock.types import Batch


def trace_of(batch: Batch) -> Mapping[str, str]:
    """Returns the W3C trace headers for a batch. A call carries one trace only, so of several in a batch the first
    is sent, unless the batch itself is traced."""
    whose = [(request.traceparent, request.tracestate) for request in batch.requests]
    if batch.traced is not None:
        whose.insert(0, (batch.traced.traceparent, batch.traced.tracestate))
    for parent, state in whose:
        if parent is not None and _fits_in_a_header(parent):
            if state is None or not _fits_in_a_header(state):
                return {"traceparent": parent}
            return {"traceparent": parent, "tracestate": state}
    return {}


def note_status(batch: Batch, status: int | None) -> None:
    """Note with which status the endpoint answered, if the batch is traced. None: it is asked, and has not
    answered."""
    if batch.traced is not None:
        batch.traced.status = status


def _fits_in_a_header(value: str) -> bool:
    """Returns whether the value can be sent in a header. Doors let in no other, but over Redis another program may
    have written it."""
    return value.isascii() and value.isprintable()
