"""The heads of HTTP/2 for our own machine (`http2_machine.py`): which a request may have, and what of ours is
worth a place in the table of compression. The compression itself is jh2's, compiled."""

import re
from collections.abc import Iterable, Sequence

from jh2._hazmat import Decoder, Encoder, OversizedHeaderListError

__all__ = ["Decoder", "Encoder", "Fields", "TooLargeHead", "Unreadable", "check_request", "encodable", "read"]

NEEDED = {b":method", b":scheme", b":path"}
PSEUDO = {*NEEDED, b":authority"}
# They speak of a connection, which HTTP/2 does itself (RFC 9113, 8.2.2).
FORBIDDEN = {b"connection", b"keep-alive", b"proxy-connection", b"transfer-encoding", b"upgrade"}
_NAME = re.compile(rb"[!#$%&'*+\-.^_`|~0-9a-z]+").fullmatch
_STRANGE = re.compile(rb"[\0\r\n]|\A[ \t]|[ \t]\Z").search
# Fields of ours that are the same in many answers. All others would push these out of the table.
ALIKE = {b":status", b"content-type", b"grpc-status", b"ratelimit-limit", b"date"}
Fields = Sequence[tuple[bytes, bytes, bool]]
_known: set[bytes] = set()  # names that were found to be good
MOST_KNOWN = 256


class Unreadable(Exception):
    """A head that is not compressed as it should be."""


class TooLargeHead(Unreadable):
    """A head that is larger than it may be, once it is unpacked."""


def read(decoder: Decoder, block: bytes) -> Fields:
    """Returns the fields of a head. Raises Unreadable."""
    try:
        fields: Fields = decoder.decode(block, raw=True)
    except OversizedHeaderListError:
        raise TooLargeHead from None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # what the compiled code did not expect is no Exception
        raise Unreadable(str(error)[:100]) from None
    return fields


def check_request(fields: Fields) -> bool:
    """Whether a request may have these fields, in this order."""
    seen = set[bytes]()
    regular = False
    for name, value, _ in fields:
        if _STRANGE(value):
            return False
        if name[:1] == b":":
            if regular or name not in PSEUDO or name in seen:
                return False
            seen.add(name)
            continue
        regular = True
        if name not in _known:
            if not _NAME(name) or name in FORBIDDEN:
                return False
            if len(_known) < MOST_KNOWN:
                _known.add(name)
        if name == b"te" and value != b"trailers":
            return False
    return seen >= NEEDED


def encodable(fields: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes, bool]]:
    """Returns fields as the encoder wants them: each with whether it is kept out of the table."""
    return [(name, value, name not in ALIKE) for name, value in fields]
