"""Writes spans as OTLP has them: OpenTelemetry's protobuf messages, each field at its number. The files of spans
write theirs with it, in the thread of the exporter; `receiver.py` makes requests of them; `roles/traces.py`
describes the resource, which is the process that sends them. Pure.

The bytes are written directly: a span takes a few joins, and few spans have an attribute that was not written
before. `opentelemetry/proto/trace/v1/trace.proto` has the numbers, which the tests check with its own parser.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from functools import lru_cache
from struct import Struct

from penstock.adapters.tracing.context import Context

Value = str | int | bool | float

FRAMED = 2  # the wire type of everything that begins with its length
_TIMES = Struct("<BQBQ").pack
_TRACE, _SPAN, _PARENT = b"\x0a\x10", b"\x12\x08", b"\x22\x08"
_FAILED = b"\x7a\x02\x18\x02"  # the status of a span that failed
# The flags of a span and of a link: it is recorded, it is known where its parent is, and that is another process.
_HERE, _ELSEWHERE = (b"\x85\x01\x01\x01\0\0", b"\x85\x01\x01\x03\0\0")
_LINK, _LINK_FLAGS = b"\x6a\x21" + _TRACE, b"\x35\x01\x01\0\0"


class Kind(IntEnum):
    """The kinds of spans, with OpenTelemetry's numbers."""

    INTERNAL = 1
    SERVER = 2
    CLIENT = 3
    PRODUCER = 4
    CONSUMER = 5


_SMALL = tuple(bytes((number,)) for number in range(128))
SHORT = 100  # bytes of a text: every length around it then takes one byte


def varint(number: int) -> bytes:
    """Returns a whole number that is not negative, as protobuf writes it."""
    if number < 0x80:
        return _SMALL[number]
    written = bytearray()
    while number > 0x7F:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def framed(field: int, content: bytes) -> bytes:
    """Returns a field that is a text, bytes or a message."""
    return b"".join((varint(field << 3 | FRAMED), varint(len(content)), content))


def key_value(key: str, value: Value) -> bytes:
    """Returns OTLP's KeyValue, of which attributes are made."""
    match value:
        case str():
            said = framed(1, value.encode(errors="replace"))
        case bool():
            said = b"\x10\x01" if value else b"\x10\0"
        case int():
            said = b"\x18" + varint(value % 2**64)
        case float():
            said = Struct("<Bd").pack(0x21, value)
    return framed(1, key.encode()) + framed(2, said)


@lru_cache(4096, typed=True)  # few are different, and clients cannot keep more of theirs here than this
def attribute(key: str, value: Value) -> bytes:
    """Returns an attribute of a span."""
    return framed(9, key_value(key, value))


def attributes(said: Mapping[str, Value]) -> bytes:
    """Returns several attributes of a span."""
    return b"".join([attribute(key, value) for key, value in said.items()])


class TextAttribute:
    """An attribute whose text is another one each time, such as an id."""

    def __init__(self, key: str) -> None:
        self._key, self._before = key, framed(1, key.encode()) + b"\x12"

    def __call__(self, text: str) -> bytes:
        said = text.encode(errors="replace")
        size, before = len(said), self._before
        if size + len(before) > SHORT:
            return framed(9, key_value(self._key, text))
        small = _SMALL
        return b"".join(
            (b"\x4a", small[len(before) + size + 3], before, small[size + 2], b"\x0a", small[size], said)
        )


@lru_cache(4096)
def title(name: str, kind: Kind) -> bytes:
    """Returns the name and the kind of a span."""
    return framed(5, name.encode(errors="replace")) + bytes((0x30, kind))


@lru_cache(256)
def _state(tracestate: str) -> bytes:
    return framed(3, tracestate.encode())


def link(to: Context) -> bytes:
    """Returns a span's link to another span."""
    return b"".join((_LINK, to.trace, _SPAN, to.span, _LINK_FLAGS))


def span(
    own: Context,
    parent: bytes,
    named: bytes,
    start: int,
    end: int,
    told: bytes,
    *,
    state: str | None = None,
    links: Sequence[bytes] = (),
    failed: bool = False,
    remote: bool = False,
) -> bytes:
    """Returns one span. `parent`: the id of the span above it, empty if there is none; `remote`: whether that is in
    another process. `named`: its `title`. `start` and `end`: nanoseconds since the epoch. `told`: attributes, as
    `attribute` wrote them."""
    content = b"".join(
        (
            _TRACE, own.trace, _SPAN, own.span, _state(state) if state else b"",
            _PARENT + parent if parent else b"", named, _TIMES(0x39, start, 0x41, end), told,
            *links, _FAILED if failed else b"", _ELSEWHERE if remote else _HERE,
        )
    )  # fmt: skip
    return b"".join((b"\x12", varint(len(content)), content))


def request_head(resource: Mapping[str, Value], scope: str, version: str) -> tuple[bytes, bytes]:
    """Returns what goes before the spans of each request: the resource, and the scope that the spans belong to."""
    described = b"".join([framed(1, key_value(key, value)) for key, value in resource.items()])
    return framed(1, described), framed(1, framed(1, scope.encode()) + framed(2, version.encode()))


def request(head: tuple[bytes, bytes], spans: Iterable[bytes]) -> bytes:
    """Returns the body of one request to the receiver. `head`: made by `request_head`."""
    resource, scope = head
    return framed(1, resource + framed(2, scope + b"".join(spans)))


def rejected(answer: bytes) -> int:
    """Returns how many spans the receiver says that it did not take, by the body of a good answer; 0 if the body
    cannot be read."""
    try:
        part = _first(answer, 1)
        told = _first(part, 1) if isinstance(part, bytes) else 0
    except IndexError:
        return 0
    return told if isinstance(told, int) else 0


def _first(message: bytes, field: int) -> bytes | int | None:
    """Returns the first field of this number; None if there is none. Raises IndexError if the message is cut
    off."""
    at = 0
    while at < len(message):
        tag, at = _read(message, at)
        value: bytes | int
        match tag & 7:
            case 0:
                value, at = _read(message, at)
            case 2:
                size, at = _read(message, at)
                value, at = message[at : at + size], at + size
            case _:
                return None
        if tag >> 3 == field:
            return value
    return None


def _read(message: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80 or shift > 63:
            return number, at
