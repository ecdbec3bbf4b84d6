"""What a client is answered, whatever the version of HTTP: a status, header fields and a body. The doors and the
admin plane make answers. Each version of HTTP writes its own head, with the date and the length of the body."""

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

Fields = Sequence[tuple[str, str]]  # names in lower case, and their values
# Requests in a minute, how many of these remain, and the seconds until some of them come back.
Quota = tuple[int, int, int]

JSON = ("content-type", "application/json")
JSON_ALONE: Fields = (JSON,)  # the fields of most answers, beside the usual ones


class Usual(Struct, eq=False, gc=False):  # without gc, since no cycle can lead through texts and numbers
    """What the head of nearly every answer to a request says. Each has a place of its own: HTTP/1.1 writes its head
    from them in half the time that as many fields take."""

    request_id: str
    timing: str  # of Server-Timing; empty where the answer tells no times
    traceparent: str | None
    quota: Quota | None  # None: the tenant has none

    @property
    def fields(self) -> Fields:
        fields = [("x-request-id", self.request_id)]
        if self.timing:
            fields.append(("server-timing", self.timing))
        if self.traceparent is not None:
            fields.append(("traceparent", self.traceparent))
        if self.quota is not None:
            limit, remaining, reset = map(str, self.quota)
            fields.append(("ratelimit-limit", limit))
            fields.append(("ratelimit-remaining", remaining))
            fields.append(("ratelimit-reset", reset))
        return fields


class Answer(Struct, eq=False, gc=False):  # without gc, as `Usual`
    """The body that is sent is `before`, `body` and `after`. A large output goes in the middle as it is, and is
    copied once: when its head is put before it."""

    status: int
    fields: Fields  # but for the usual ones
    body: bytes
    usual: Usual | None = None
    before: bytes = b""
    after: bytes = b""
    code: str = ""  # the error code, where it tells of an error; it is not sent by itself

    @property
    def all_fields(self) -> Fields:
        return self.fields if self.usual is None else [*self.fields, *self.usual.fields]

    @property
    def whole(self) -> bytes:
        return b"".join((self.before, self.body, self.after))


def with_fields(answer: Answer, more: Fields) -> Answer:
    return replace(answer, fields=[*answer.fields, *more])
