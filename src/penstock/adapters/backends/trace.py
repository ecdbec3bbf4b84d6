"""Which trace a call to an endpoint belongs to."""

from collections.abc import Mapping

from penstock.types import Batch


def trace_of(batch: Batch) -> Mapping[str, str]:
    """W3C headers. A call carries one trace, and a batch may have several: it is the first that there is."""
    for request in batch.requests:
        if request.traceparent is not None:
            if request.tracestate is None:
                return {"traceparent": request.traceparent}
            return {"traceparent": request.traceparent, "tracestate": request.tracestate}
    return {}
