"""When the certificates of a PEM file end. `tls.py` asks when it loads them, and the metrics show it, so that a
certificate that nobody renews is seen before clients are turned away.

Python's `ssl` does not tell this of a server's own certificate. So the few fields before the dates are skipped
here, as DER writes them: a tag, a length, and the content.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

_BEGIN, _END = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
_VERSION = 0xA0  # the tag of a field that old certificates leave out
_UTC_TIME = 0x17  # the tag of a date whose year has two digits; another one has four
_BEFORE_DATES = 3  # fields: the serial number, the signature's algorithm, the issuer


def first_end(file: Path) -> float | None:
    """Returns when the first of the certificates in the file ends, in seconds since the epoch. None: the file says
    it in no form that is known here."""
    try:
        return min(map(_end, _certificates(file.read_text("latin-1"))), default=None)
    except (OSError, ValueError, IndexError):
        return None


def _certificates(text: str) -> Iterator[bytes]:
    for part in text.split(_BEGIN)[1:]:
        body, found, _ = part.partition(_END)
        if found:
            yield ssl.PEM_cert_to_DER_cert(f"{_BEGIN}{body}{_END}")


def _end(certificate: bytes) -> float:
    _, whole, _ = _field(certificate)
    _, rest, _ = _field(whole)  # what is signed
    if rest[0] == _VERSION:
        _, _, rest = _field(rest)
    for _ in range(_BEFORE_DATES):
        _, _, rest = _field(rest)
    _, dates, _ = _field(rest)
    _, _, after_begin = _field(dates)
    tag, end, _ = _field(after_begin)
    text = end.decode("ascii")
    if tag == _UTC_TIME:  # the years 1950 to 2049
        text = ("19" if text >= "5" else "20") + text
    return datetime.strptime(text, "%Y%m%d%H%M%SZ").replace(tzinfo=UTC).timestamp()


def _field(data: bytes) -> tuple[int, bytes, bytes]:
    """Returns the tag and the content of the first field, and what comes after it."""
    length, start = data[1], 2
    if length & 0x80:  # so many bytes follow, which are the length
        start += length & 0x7F
        length = int.from_bytes(data[2:start])
    return data[0], data[start : start + length], data[start + length :]
