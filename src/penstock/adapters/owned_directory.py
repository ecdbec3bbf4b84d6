"""A directory that belongs to one process. When that process has died, another may take the directory over.

The ledger's spool (`ledger/spool.py`) and the store of `penstock up` (`installation/own_store.py`) have one. The
owner holds a lock on a file in the directory. The kernel releases the lock when the owner ends, however it ends. So
a process that can take the lock may have what is in the directory.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.adapters import private

_LOCK = "lock"


class OwnedDirectory:
    """A directory that this process owns until `release`."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def create(cls, root: Path) -> "OwnedDirectory":
        """Makes a new directory below `root`."""
        private.make_folder(root)
        while True:
            path = root / secrets.token_hex(6)
            path.mkdir(mode=private.FOLDER)
            (path / _LOCK).touch(mode=private.FILE)
            owned = cls.take_over(path)
            if owned is not None:
                return owned  # otherwise another process took it for an abandoned one before we had the lock

    @classmethod
    def take_over(cls, path: Path) -> "OwnedDirectory | None":
        """Returns this directory if nobody owns it any more, and owns it from now on; None otherwise."""
        try:
            lock = os.open(path / _LOCK, os.O_RDWR)
        except (FileNotFoundError, NotADirectoryError):
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:
                return cls(path, lock)
        except BlockingIOError:
            pass
        os.close(lock)
        return None

    def abandoned(self) -> Iterator["OwnedDirectory"]:
        """Takes over, one by one, the directories beside this one whose owners have died."""
        for path in sorted(self.path.parent.iterdir()):
            if path != self.path and (owned := OwnedDirectory.take_over(path)) is not None:
                yield owned

    def release(self) -> None:
        """Deletes the directory, unless something is left in it for another process to take over."""
        with suppress(FileNotFoundError):  # somebody has deleted it
            if [entry.name for entry in self.path.iterdir()] == [_LOCK]:
                (self.path / _LOCK).unlink()
                self.path.rmdir()
        os.close(self._lock)
