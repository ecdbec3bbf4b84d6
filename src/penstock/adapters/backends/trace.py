"""Which trace a call to an endpoint belongs to."""

from collections.abc import Mapping

from penstock.types import Batch


def trace_of(batch: Batch) -> Mapping[str, str]:
    """W3C headers. A call carries one trace, and a batch may have several: it is the first that there is."""
    for request in batch.requests:
        parent, state = request.traceparent, request.tracestate
        if parent is not None and _fits_in_a_header(parent):
            if state is None or not _fits_in_a_header(state):
                return {"traceparent": parent}
            return {"traceparent": parent, "tracestate": state}
    return {}


def _fits_in_a_header(value: str) -> bool:
    """Doors let in nothing else; but over Redis it may be another program that has written it."""
    return value.isascii() and value.isprintable()
