"""The status of a failed call of gRPC, by one table, and the fields with which it ends. All doors for gRPC use
it, and the data plane for calls that no door takes."""

from base64 import b64encode
from math import ceil, modf
from urllib.parse import quote

from penstock.doors.every_answer import in_full, status_of
from penstock.edge.answer import Answer
from penstock.errors import (
    BackendCrashed,
    BackendFailed,
    BackendOutOfMemory,
    BackendTimeout,
    BackendUnavailable,
    BodyTooSlow,
    Cancelled,
    ClientLeft,
    Conflict,
    DeadlineExceeded,
    Draining,
    Forbidden,
    HeadTooLarge,
    HeadTooSlow,
    Internal,
    KeyReused,
    Malformed,
    MethodNotAllowed,
    NoInput,
    NotFound,
    NotInstalled,
    Overloaded,
    OverQuota,
    StoreDown,
    TooLarge,
    Unacceptable,
    Unauthorized,
    UnknownCoding,
    UnknownVersion,
    UnsupportedMedia,
    UpgradeRequired,
)
from penstock.ports.tracing import ByGrpc
from penstock.protos.messages import message
from penstock.types import Failure

CANCELLED, UNKNOWN, INVALID, DEADLINE, NOT_FOUND, EXISTS, DENIED, EXHAUSTED = 1, 2, 3, 4, 5, 6, 7, 8
ABORTED, UNIMPLEMENTED, INTERNAL, UNAVAILABLE, UNAUTHENTICATED = 10, 12, 13, 14, 16

STATUS_OF = {
    Malformed.code: INVALID,
    NoInput.code: INVALID,
    Unacceptable.code: INVALID,
    Unauthorized.code: UNAUTHENTICATED,
    Forbidden.code: DENIED,
    NotFound.code: NOT_FOUND,
    MethodNotAllowed.code: UNIMPLEMENTED,
    UnsupportedMedia.code: UNIMPLEMENTED,
    UnknownCoding.code: UNIMPLEMENTED,
    UnknownVersion.code: UNIMPLEMENTED,
    UpgradeRequired.code: UNIMPLEMENTED,
    NotInstalled.code: UNIMPLEMENTED,
    BodyTooSlow.code: DEADLINE,
    HeadTooSlow.code: DEADLINE,
    DeadlineExceeded.code: DEADLINE,
    Conflict.code: ABORTED,
    KeyReused.code: EXISTS,
    TooLarge.code: EXHAUSTED,
    HeadTooLarge.code: EXHAUSTED,
    OverQuota.code: EXHAUSTED,
    Overloaded.code: UNAVAILABLE,
    Draining.code: UNAVAILABLE,
    StoreDown.code: UNAVAILABLE,
    Cancelled.code: CANCELLED,
    ClientLeft.code: CANCELLED,
    # What the backend did with an input was tried as often as the settings say: another try is the client's choice.
    BackendFailed.code: INTERNAL,
    BackendOutOfMemory.code: INTERNAL,
    BackendCrashed.code: INTERNAL,
    BackendTimeout.code: INTERNAL,
    BackendUnavailable.code: INTERNAL,
    Internal.code: INTERNAL,
}
_OK = 0
LONGEST = 1024  # characters of a message: a client may take no more than 8 KiB of fields
_KNOWN_AS = "type.googleapis.com/google.rpc."

_Status, _RetryInfo, _ErrorInfo = (
    message(f"google.rpc.{name}") for name in ("Status", "RetryInfo", "ErrorInfo")
)


def failed(failure: Failure, request_id: str) -> Answer:
    """Returns the answer to a call that failed: fields with a status, and no message."""
    return ended(STATUS_OF.get(failure.code, UNKNOWN), failure, request_id)


def no_such_method(failure: Failure, request_id: str) -> Answer:
    """Returns the answer to a call that no door takes."""
    status = UNIMPLEMENTED if failure.code == NotFound.code else STATUS_OF.get(failure.code, UNKNOWN)
    return ended(status, failure, request_id)


def by_grpc(method: bytes, url: bytes, route: str, status: int, code: str) -> ByGrpc:
    """Says how a call came and ended, as its span tells it (`doors/traced.py`)."""
    service, _, name = route.removeprefix("/").partition("/")
    return ByGrpc(service, name, STATUS_OF.get(code, UNKNOWN) if code else _OK)


def ended(status: int, failure: Failure, request_id: str) -> Answer:
    said = in_full(failure)[:LONGEST]
    fields = [
        ("grpc-status", str(status)),
        ("grpc-message", quote(said, safe=" !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~")),
        ("x-request-id", request_id),
        ("grpc-status-details-bin", b64encode(_details(status, said, failure)).decode()),
    ]
    if failure.retry_after is not None and status == UNAVAILABLE:
        fields.append(("grpc-retry-pushback-ms", str(max(1, ceil(failure.retry_after * 1e3)))))
    return Answer(status_of(failure), fields, b"", code=failure.code)


def _details(status: int, said: str, failure: Failure) -> bytes:
    told = _Status(code=status, message=said)
    told.details.add(
        type_url=f"{_KNOWN_AS}ErrorInfo",
        value=_ErrorInfo(reason=failure.code, domain="penstock").SerializeToString(),
    )
    if failure.retry_after is not None:
        retry, (rest, whole) = _RetryInfo(), modf(max(0.001, failure.retry_after))
        retry.retry_delay.seconds, retry.retry_delay.nanos = int(whole), int(rest * 1e9)
        told.details.add(type_url=f"{_KNOWN_AS}RetryInfo", value=retry.SerializeToString())
    content: bytes = told.SerializeToString()
    return content
