"""One tree of errors, with the HTTP status and the error code of each. Whatever goes wrong in any room is raised as
one of these: the data plane makes answers of them, the batcher decides by them what is tried again, and the command
line prints a `UserMistake`.

PenstockError
├── UserMistake                  a mistake of the operator: one line, exit code 2
├── Refused                      not accepted: nothing was started
│   ├── Malformed 400   NoInput 400   Unauthorized 401   Forbidden 403   NotFound 404   MethodNotAllowed 405
│   ├── BodyTooSlow 408   HeadTooSlow 408   Conflict 409   KeyReused 409   TooLarge 413   UnsupportedMedia 415
│   ├── Unacceptable 422   UpgradeRequired 426   HeadTooLarge 431   UnknownCoding 501   NotInstalled 501
│   ├── UnknownVersion 505
│   ├── HopelessDeadline 504
│   ├── OverQuota 429 (retry_after)
│   └── Overloaded 503 (retry_after)   Draining 503 (retry_after)   StoreDown 503 (retry_after)
├── Undelivered                  accepted, and ended without an output
│   ├── DeadlineExceeded 504   BackendFailed 502   ClientLeft 499   Cancelled 409   Internal 500
└── BackendError                 what an adapter says of one batch; told to askers when the attempts are spent
    ├── BatchRejected 502        the backend answered, but not with n outputs: a member may be to blame
    ├── BackendOutOfMemory 502   the batch did not fit into memory: a smaller one may
    ├── BackendCrashed 502       the backend died with the batch in hand: a member may be to blame
    ├── BackendTimeout 504       the backend did not answer in time: a member may be to blame
    ├── BackendUnavailable 502   the backend never took the batch: nobody is to blame, try elsewhere
    └── BackendBusy 503          the backend is there, and wants the batch later (retry_after): nothing has failed
"""

from typing import ClassVar


class PenstockError(Exception):
    """Anything that goes wrong. `code` and `status`: what a client is told of it."""

    code: ClassVar[str] = "INTERNAL"
    status: ClassVar[int] = 500
    splittable: ClassVar[bool] = False  # whether one member of the failed batch may be to blame
    retry_after: float | None = None  # seconds after which the request may be sent again
    # If a request was refused for want of time: how many seconds it needed, and how many it had.
    needed: float | None = None
    had: float | None = None
    model = ""  # the model that was asked for, where it is known
    tenant = ""  # the tenant that asked, where it is known

    def __init__(self, message: str, *, retry_after: float | None = None, details: str = "") -> None:
        super().__init__(message)
        self.message = message  # fit for anybody to read
        self.retry_after = retry_after
        self.details = details  # may quote an input or show code: for the asker concerned, or --debug


class UserMistake(PenstockError):
    """Something the operator can put right; the message says how."""

    code = "USER_MISTAKE"


class Refused(PenstockError):
    """Not accepted: the request never entered a queue."""


def about(refused: Refused, model: str, tenant: str) -> Refused:
    """Returns this refusal, with the model and tenant of the request that it is about."""
    refused.model, refused.tenant = model, tenant
    return refused


class Malformed(Refused):
    code, status = "MALFORMED_REQUEST", 400


class NoInput(Refused):
    """A list of inputs with nothing in it."""

    code, status = "NO_INPUT", 400


class Unauthorized(Refused):
    """Nobody knows who asks. The message never says which part of a credential was wrong."""

    code, status = "UNAUTHORIZED", 401


class KeysWanted(Unauthorized):
    """A token was signed with a key that is not known. The identity provider is due to be asked for its keys; only
    if that key is among them may the token be good."""


class Forbidden(Refused):
    """It is known who asks, and they may not do this."""

    code, status = "FORBIDDEN", 403


class NotFound(Refused):
    code, status = "NOT_FOUND", 404


class NoSuchModel(NotFound):
    """There is no such model. This is known only after the body was read, since it names the model."""


class MethodNotAllowed(Refused):
    code, status = "METHOD_NOT_ALLOWED", 405


class BodyTooSlow(Refused):
    code, status = "BODY_TOO_SLOW", 408


class HeadTooSlow(Refused):
    code, status = "HEAD_TOO_SLOW", 408


class Conflict(Refused):
    code, status = "CONFLICT", 409


class KeyReused(Refused):
    """The Idempotency-Key was used for another request before."""

    code, status = "IDEMPOTENCY_CONFLICT", 409


class TooLarge(Refused):
    code, status = "TOO_LARGE", 413


class UnsupportedMedia(Refused):
    code, status = "UNSUPPORTED_MEDIA_TYPE", 415


class Unacceptable(Refused):
    code, status = "UNACCEPTABLE", 422


class UpgradeRequired(Refused):
    """The path speaks WebSocket, and the request asks for no other protocol, or not in a way that is understood."""

    code, status = "UPGRADE_REQUIRED", 426


class HeadTooLarge(Refused):
    code, status = "HEAD_TOO_LARGE", 431


class UnknownCoding(Refused):
    code, status = "UNKNOWN_TRANSFER_ENCODING", 501


class NotInstalled(Refused):
    """A door that is open needs a library that is not installed."""

    code, status = "NOT_INSTALLED", 501


class UnknownVersion(Refused):
    code, status = "UNKNOWN_HTTP_VERSION", 505


class HopelessDeadline(Refused):
    """The request's time is shorter than one batch takes. Waiting would not help, nor would more workers."""

    code, status = "DEADLINE_EXCEEDED", 504


class OverQuota(Refused):
    """The asker is over its own limit, whatever the load. Waiting helps; more workers would not."""

    code, status = "QUOTA_EXCEEDED", 429
    limit: int | None = None  # requests per minute, if these are limited
    reset: float = 0.0  # seconds until more may come
    in_flight: int | None = None  # the limit on requests in flight, if that is what was exceeded


class Overloaded(Refused):
    code, status = "SERVICE_OVERLOADED", 503


class Draining(Refused):
    code, status = "SERVICE_DRAINING", 503


class StoreDown(Refused):
    """Redis does not answer, or cannot take more: nothing can be accepted until it can."""

    code, status = "STORE_UNAVAILABLE", 503


class Undelivered(PenstockError):
    """A request was accepted, and ended without an output."""


class DeadlineExceeded(Undelivered):
    code, status = "DEADLINE_EXCEEDED", 504


class BackendFailed(Undelivered):
    code, status = "BACKEND_FAILED", 502


class ClientLeft(Undelivered):
    """The client left before it was answered. Nobody is sent this; it is only counted."""

    code, status = "CLIENT_LEFT", 499


class Cancelled(Undelivered):
    code, status = "CANCELLED", 409


class Internal(Undelivered):
    code, status = "INTERNAL", 500


class BackendError(PenstockError):
    """What went wrong with one batch at the backend."""

    code, status = "BACKEND_FAILED", 502
    splittable = True
    fatal: ClassVar[bool] = False  # the backend must be started anew before the next batch


class BatchRejected(BackendError):
    """The backend is alive and refused the batch: an exception, a wrong number or type of outputs, a 4xx or 5xx."""


class BackendOutOfMemory(BackendError):
    """The batch was too large, or one input is. The backend is alive, and can run smaller batches."""

    code = "BACKEND_OUT_OF_MEMORY"


class BackendCrashed(BackendError):
    code = "BACKEND_CRASHED"
    fatal = True


class BackendTimeout(BackendError):
    code, status = "BACKEND_TIMEOUT", 504
    fatal = True


class BackendUnavailable(BackendError):
    code = "BACKEND_UNAVAILABLE"
    splittable = False
    fatal = True


class BackendBusy(BackendError):
    """The backend refused the batch because of its own load or of our quota there. The batch waits, and counts as
    no attempt. Requests that cannot wait so long fail as if we had refused them."""

    code, status = Overloaded.code, Overloaded.status
    splittable = False


STATUS_BY_CODE: dict[str, int] = {
    kind.code: kind.status
    for kind in (
        Malformed, NoInput, Unauthorized, Forbidden, NotFound, MethodNotAllowed, BodyTooSlow, HeadTooSlow, Conflict,
        KeyReused, TooLarge, UnsupportedMedia, Unacceptable, OverQuota, UpgradeRequired, HeadTooLarge,
        UnknownCoding, NotInstalled, UnknownVersion, Overloaded, Draining,
        StoreDown, DeadlineExceeded, BackendFailed, ClientLeft, Cancelled, Internal, BackendOutOfMemory,
        BackendCrashed, BackendTimeout, BackendUnavailable,
    )
}  # fmt: skip
