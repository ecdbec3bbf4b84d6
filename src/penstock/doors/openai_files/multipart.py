"""Reads a form as browsers and clients send it with a file in it: multipart/form-data (RFC 7578). The door for
files calls it. Pure: the body comes in pieces and is read in steps, and nothing of it is joined that a client can
make large."""

from collections.abc import Iterable
from email.message import Message
from typing import NamedTuple

from penstock.doors.steps import Steps
from penstock.errors import Malformed, Unacceptable, UnsupportedMedia

MOST_PARTS = 16
MOST_HEAD = 4096  # bytes of the head of a part
MOST_VALUE = 4096  # bytes of a part that is no file
LONGEST_BOUNDARY = 70
STEP = 256 * 1024  # bytes that one step looks at
END = b"\r\n\r\n"


class Form(NamedTuple):
    """What a form holds."""

    values: dict[str, str]
    file_name: str
    file: list[bytes] | None  # None: there is no file


class _Part:
    """One part that is being read."""

    def __init__(self, head: bytes) -> None:
        message: Message = Message()
        for line in head.decode("utf-8", "replace").split("\r\n"):
            name, colon, value = line.partition(":")
            if colon:
                message.add_header(name.strip(), value.strip())
        if message.get_content_disposition() != "form-data":
            raise Malformed("a part of the form has no Content-Disposition: form-data")
        given = message.get_param("name", header="content-disposition")
        self.name = given if isinstance(given, str) else ""
        self.file_name = message.get_filename()
        self.pieces: list[bytes] = []
        self.size = 0

    @property
    def is_file(self) -> bool:
        return self.name == "file"

    def add(self, piece: bytes) -> None:
        self.size += len(piece)
        if not self.is_file and self.size > MOST_VALUE:
            raise Unacceptable(f"'{self.name[:50]}' is longer than {MOST_VALUE} bytes")
        if piece:
            self.pieces.append(piece)


def boundary_of(content_type: bytes | None) -> bytes:
    """Returns what stands between the parts, by the head's Content-Type. Raises UnsupportedMedia if the body is
    something else."""
    message = Message()
    message["content-type"] = (content_type or b"").decode("latin-1")
    boundary = message.get_param("boundary")
    if message.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise UnsupportedMedia("send multipart/form-data, with its boundary")
    if not 0 < len(boundary) <= LONGEST_BOUNDARY:
        raise Malformed(f"the boundary of the form must be 1 to {LONGEST_BOUNDARY} characters long")
    return boundary.encode("latin-1")


def read_form(body: Iterable[bytes], boundary: bytes) -> Steps[Form]:
    """Returns what the form holds. Raises Malformed or Unacceptable."""
    reader = _Reader(boundary)
    for large in body:
        view = memoryview(large)
        for start in range(0, len(view), STEP):
            reader.feed(bytes(view[start : start + STEP]))
            yield
    return reader.form()


class _Reader:
    """Finds the parts of a form, piece by piece."""

    def __init__(self, boundary: bytes) -> None:
        self._between = b"\r\n--" + boundary
        self._rest = b"\r\n"  # as if a line had ended before the first boundary
        self._in_head = self._ended = False
        self._part: _Part | None = None  # None: before the first part
        self._parts: list[_Part] = []

    def feed(self, piece: bytes) -> None:
        data = self._rest + piece
        while not self._ended:
            if self._in_head:
                if data.startswith(b"--"):
                    self._ended = True
                    break
                end = data.find(END)
                if (end if end >= 0 else len(data)) > MOST_HEAD:
                    raise Malformed(f"the head of a part is longer than {MOST_HEAD} bytes")
                if end < 0:
                    break
                self._begin(data[:end])
                data = data[end + len(END) :]
            else:
                at = data.find(self._between)
                if at < 0:
                    keep = len(self._between) - 1
                    self._add(data[:-keep])
                    data = data[-keep:]
                    break
                self._add(data[:at])
                data = data[at + len(self._between) :]
                self._in_head = True
        self._rest = b"" if self._ended else data

    def _begin(self, head: bytes) -> None:
        if len(self._parts) >= MOST_PARTS:
            raise Malformed(f"the form has more than {MOST_PARTS} parts")
        self._part = _Part(head)
        self._parts.append(self._part)
        self._in_head = False

    def _add(self, data: bytes) -> None:
        if self._part is not None:
            self._part.add(data)

    def form(self) -> Form:
        if not self._ended:
            raise Malformed("the form is not complete: its last boundary is missing")
        values, file = dict[str, str](), None
        for part in self._parts:
            if part.name in values or (part.is_file and file is not None):
                raise Malformed(f"'{part.name[:50]}' is there more than once")
            if part.is_file:
                file = part
            else:
                try:
                    values[part.name] = b"".join(part.pieces).decode()
                except UnicodeDecodeError:
                    raise Malformed(f"'{part.name[:50]}' is not UTF-8") from None
        return Form(
            values, "" if file is None else file.file_name or "", None if file is None else file.pieces
        )
