"""Reads from the trailers of a gRPC answer when its endpoint wants to be asked again: `google.rpc.RetryInfo` in the
details of its status. The backend (`backends/grpc.py`) asks when an endpoint refuses a batch."""

from collections.abc import Iterable
from typing import Any

from google.protobuf.message import DecodeError

from penstock.protos.messages import message

DETAILS = "grpc-status-details-bin"  # the trailer that holds the whole status
_RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"
_Status, _RetryInfo = message("google.rpc.Status"), message("google.rpc.RetryInfo")


def delay_in(trailers: Iterable[Any]) -> float | None:
    """Returns how many seconds to wait; None if the trailers, pairs of a name and a value, do not say."""
    details = dict(trailers).get(DETAILS, b"")
    try:
        for detail in _Status.FromString(details).details:
            if detail.type_url == _RETRY_INFO:
                delay = _RetryInfo.FromString(detail.value).retry_delay
                return max(0.0, float(delay.seconds + delay.nanos / 1e9))
    except (DecodeError, TypeError):
        pass
    return None
