"""The file of recorded arrivals: CSV that grows up to a limit and then loses its older half. `roles/recording.py`
opens it, and `recorder.py` writes it in a thread.

Several gateways of one machine may record into one file. Each text is written whole, under a lock, and the file
is shortened in place, so that the others go on writing to the same one. Their lines are not in order; who reads
the file sorts them."""

import fcntl
import os
from errno import EEXIST
from io import SEEK_END
from pathlib import Path

from penstock.adapters.private import opener

HEADER = "TIMESTAMP,ContextTokens,InputBytes,OutputBytes,Tenant,Tier,Model\n"
KEPT = 0.5  # the part of the limit that is kept when the file is full


class RecordFile:
    """The open file."""

    def __init__(self, path: Path, limit: int) -> None:
        """Opens the file, or makes it. Raises OSError, also if the file holds something else. `limit`:
        bytes."""
        self.path, self._limit = path, limit
        self.trouble = ""  # why the last text could not be written; empty if it could
        self._file = open(path, "a+b", buffering=0, opener=opener)  # noqa: SIM115 - it stays open
        self._file.seek(0)
        begins = self._file.read(len(HEADER))
        if begins and begins != HEADER.encode():
            self._file.close()
            raise OSError(EEXIST, "it holds something else", str(path))

    def write(self, text: str) -> None:
        """Add whole lines. Raises OSError."""
        data = text.encode()
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX)
            try:
                self._reopen_if_moved()
                size = self._file.seek(0, SEEK_END)
                if size + len(data) > self._limit:
                    size = self._shorten(size, len(data))
                self._append(data if size else HEADER.encode() + data)
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)
        except OSError as error:
            self.trouble = error.strerror or str(error)
            raise
        self.trouble = ""

    def _append(self, data: bytes) -> None:
        left = memoryview(data)
        while left:
            left = left[os.write(self._file.fileno(), left) :]

    def _reopen_if_moved(self) -> None:
        """Begin a new file if somebody has moved or deleted this one."""
        try:
            there = self.path.stat()
        except FileNotFoundError:
            there = None
        own = os.fstat(self._file.fileno())
        if there is None or (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino):
            self._file.close()
            self._file = open(self.path, "a+b", buffering=0, opener=opener)  # noqa: SIM115 - it stays open
            fcntl.flock(self._file, fcntl.LOCK_EX)

    def _shorten(self, size: int, coming: int) -> int:
        """Keep the newer half only, and return the size of the file. `coming`: bytes that are about to be added."""
        kept = max(0, min(size, int(self._limit * KEPT) - coming))
        self._file.seek(size - kept)
        tail = self._file.read(kept) or b""
        tail = tail[tail.find(b"\n") + 1 :] if size > kept else tail
        self._file.truncate(0)
        if not tail:
            return 0
        self._append(HEADER.encode() + tail)
        return len(HEADER) + len(tail)

    def close(self) -> None:
        self._file.close()
