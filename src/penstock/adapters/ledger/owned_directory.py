"""A directory of one process's own, which others can tell from one whose process has died.

The kernel lets go of a lock when its holder ends, however it ends: whoever can lock a directory may have what is
in it.
"""

import fcntl
import os
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from penstock.adapters import private

_LOCK = "lock"


class Home:
    def __init__(self, path: Path, lock: int) -> None:
        self.path = path
        self._lock = lock

    @classmethod
    def made(cls, root: Path) -> "Home":
        private.make_folder(root)
        while True:
            path = root / secrets.token_hex(6)
            path.mkdir(mode=private.FOLDER)
            (path / _LOCK).touch(mode=private.FILE)
            home = cls.found(path)
            if home is not None:
                return home  # else somebody took it for a dead one's between these lines

    @classmethod
    def found(cls, path: Path) -> "Home | None":
        """This directory, if nobody lives in it any more."""
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

    def deserted(self) -> Iterator["Home"]:
        """The homes of the dead beside this one."""
        for path in sorted(self.path.parent.iterdir()):
            if path != self.path and (home := Home.found(path)) is not None:
                yield home

    def leave(self) -> None:
        """The directory goes too, unless something is left in it for another to find."""
        with suppress(FileNotFoundError):  # somebody has cleared it away
            if [entry.name for entry in self.path.iterdir()] == [_LOCK]:
                (self.path / _LOCK).unlink()
                self.path.rmdir()
        os.close(self._lock)
