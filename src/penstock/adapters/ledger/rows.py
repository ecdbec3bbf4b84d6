"""A request's row in the ledger, and rows as the lines of a chunk. `recorder.py` writes lines with it, and the
stores read them (`postgres.py`, `sqlite.py`, `pages.py`). Pure.

A chunk is written once, as JSON lines, and nothing is decoded again on the way to a database. PostgreSQL takes a
line without its brackets as a line of CSV. SQLite takes the lines with commas between them as one JSON array. That
works because no text in a row holds a control character: `to_lines` replaces them.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from penstock.errors import PenstockError

# The values of COLUMNS. `created` and `completed` are seconds since the epoch.
Row = tuple[str, str, str, str, str, str, float, float]
COLUMNS = ("id", "request_id", "tenant", "tier", "model", "status", "created", "completed")

_encoder = msgspec.json.Encoder()
_ESCAPED_CONTROL = re.compile(rb"\\(?:u00|[bfnrt])")
_INSTEAD = dict.fromkeys(range(32), "\N{REPLACEMENT CHARACTER}")


class ChunkRejected(PenstockError):
    """The database will never take this chunk. It is set aside for people to look at."""

    code = "CHUNK_REJECTED"


@dataclass(slots=True, frozen=True)
class PastRequest:
    """A row as it is read back from the ledger: one request that has ended."""

    id: str
    request_id: str
    tenant: str
    tier: str
    model: str
    status: str  # SUCCESS, or the error code
    created: float  # seconds since the epoch
    completed: float  # seconds since the epoch
    latency_ms: float


def past_request(row: Row) -> PastRequest:
    """Returns a row of a chunk as it is read back."""
    *_, created, completed = row
    return PastRequest(*row, round((completed - created) * 1000, 3))


def to_lines(rows: Sequence[Row]) -> bytes:
    """Returns one JSON array for each row, each on a line of its own."""
    try:
        lines = _encoder.encode_lines(rows)
    except UnicodeEncodeError:  # half of a surrogate pair, which no database takes
        return _encoder.encode_lines([_cleaned(row) for row in rows])
    if b"\\" in lines and _ESCAPED_CONTROL.search(lines):
        return _encoder.encode_lines([_cleaned(row) for row in rows])
    return lines


def _cleaned(row: Row) -> list[object]:
    return [_clean(value) if isinstance(value, str) else value for value in row]


def _clean(text: str) -> str:
    return text.encode(errors="replace").decode().translate(_INSTEAD)


def as_array(lines: bytes) -> str:
    """Returns the lines of a chunk as one JSON array. Raises ChunkRejected if they are no text."""
    try:
        # Newlines are replaced in the bytes, which takes a tenth of the time that it takes in text. The server's
        # other threads wait meanwhile.
        return (b"[%b]" % lines.rstrip(b"\n").replace(b"\n", b",")).decode()
    except UnicodeDecodeError as error:
        raise ChunkRejected(str(error)) from None


def as_csv(lines: bytes) -> bytes:
    """Returns the lines of a chunk as CSV that quotes with `"` and escapes with `\\`. Newlines can be taken for the
    ends of rows, because no JSON text holds a raw one."""
    return lines.strip(b"[]\n").replace(b"]\n[", b"\n") + b"\n"
