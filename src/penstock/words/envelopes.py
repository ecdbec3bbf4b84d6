"""What a gateway says to the batchers: the requests that it has accepted, and those it withdraws, many at once.
Publishers write envelopes (`encode_envelope`), and batchers' intakes read them.

Structs are written as lists and not as maps: that takes half the bytes, and no field names have to be written. A
field may be added at the end of a list, with a default: older readers skip it.

No envelope holds a time of day. A time limit is sent as the seconds that are left. `sent` is on the sender's own
monotonic clock, so it can only be compared with the sender's other envelopes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec import DecodeError, Raw, Struct, msgpack

from penstock.types import Accepted, Request
from penstock.words.basics import VERSION, Amount, Count, Finite, Garbled, content

Taken = TypeVar("Taken", bound=Accepted)


class WireRequest(Struct, array_like=True, gc=False):
    """One request of an envelope. `encode_envelope` writes its fields in this order."""

    key: str
    model: str
    input: bytes
    parameters: bytes
    tenant: str
    tier: int
    cost: Amount
    length: Count
    request_id: str
    traceparent: str | None
    expires_in: Finite  # seconds that it may wait, from when the envelope was sent
    deadline_in: Finite  # seconds until it must be answered
    task: bool
    tracestate: str | None = None

    def request(self, kind: type[Taken], gateway: str, sent: float) -> Taken:
        """The request as a batcher has it. `kind`: its class there. `gateway`: the mailbox for its answer. `sent`:
        when it was sent, on the batcher's own clock."""
        return kind(
            self.key, self.model, self.input, sent, sent + self.expires_in, sent + self.deadline_in,
            self.request_id, self.parameters, self.tenant, self.tier, self.cost, self.length,
            self.traceparent, self.tracestate, self.task, gateway=gateway,
        )  # fmt: skip


class Envelope(Struct, array_like=True):
    """One envelope of one gateway."""

    gateway: str  # the gateway's mailbox
    sent: Finite  # on the gateway's own clock
    requests: list[WireRequest]
    withdrawn: list[str]  # the keys of withdrawn requests


class Salvaged(Struct):
    """The readable part of an envelope that cannot be read as a whole."""

    envelope: Envelope
    unreadable: list[str]  # the keys of requests that cannot be read, so that their askers can be told


class _RawEnvelope(Struct, array_like=True):
    gateway: str
    sent: Finite
    requests: list[Raw]
    withdrawn: list[Any] = []


_encode = msgpack.Encoder().encode
_envelope = msgpack.Decoder(Envelope).decode
_raw_envelope = msgpack.Decoder(_RawEnvelope).decode
_wire_request = msgpack.Decoder(WireRequest).decode
_anything = msgpack.Decoder().decode


def encode_envelope(gateway: str, requests: Iterable[Request], withdrawn: Sequence[str], now: float) -> bytes:
    """The bytes of an envelope. Requests are written as plain tuples in the order of `WireRequest`, which is
    faster: this runs for every request. Few have a tracestate."""
    rows = [
        (
            r.key, r.model, r.input, r.parameters, r.tenant, r.tier, r.cost, r.length, r.request_id,
            r.traceparent, r.expires - now, r.deadline - now, r.task,
        ) + (() if r.tracestate is None else (r.tracestate,))
        for r in requests
    ]  # fmt: skip
    return VERSION + _encode((gateway, now, rows, withdrawn))


def decode_envelope(body: bytes) -> Envelope:
    """Read an envelope. Raises Garbled."""
    try:
        return _envelope(content(body))
    except (DecodeError, UnicodeDecodeError) as error:  # the error may quote a value, but never an input
        raise Garbled(f"an envelope that cannot be read: {error}") from None


def salvage_envelope(body: bytes) -> Salvaged:
    """Read what can be read of an envelope that `decode_envelope` refused. So the other requests in it get their
    answers, and the askers of unreadable ones can be told. Raises Garbled if not even the gateway can be read."""
    try:
        raw = _raw_envelope(memoryview(body)[1:])
    except (DecodeError, UnicodeDecodeError) as error:
        raise Garbled(f"an envelope that cannot be read: {error}") from None
    known = body[:1] == VERSION
    good: list[WireRequest] = []
    unreadable: list[str] = []
    for row in raw.requests:
        try:
            if known:  # in another version the same fields may mean something else
                good.append(_wire_request(row))
                continue
        except (DecodeError, UnicodeDecodeError):
            pass
        if key := _key_of(row):
            unreadable.append(key)
    withdrawn = [key for key in raw.withdrawn if isinstance(key, str)]
    return Salvaged(Envelope(raw.gateway, raw.sent, good, withdrawn if known else []), unreadable)


def _key_of(row: Raw) -> str:
    """The key of a request that cannot be read. It has been the first field in every version so far."""
    try:
        fields = _anything(row)
    except (DecodeError, UnicodeDecodeError):
        return ""
    return fields[0] if isinstance(fields, list) and fields and isinstance(fields[0], str) else ""
