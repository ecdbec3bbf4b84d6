"""Files and folders that only the server's user may read, whatever its umask says.

What Penstock makes is private from its first moment. A file that was there before keeps its rights, because
somebody may have shared it on purpose; the log then says who can read it.
"""

import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("penstock.files")

FILE = 0o600
FOLDER = 0o700
_OTHERS = stat.S_IRWXO


def make_file(path: Path, what: str) -> None:
    """See to it that there is one. `what`: how the log calls it, if others can read it. Raises OSError."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        warn_if_open(path, what)


def make_folder(path: Path) -> None:
    """With the folders above it that are not there: `mkdir` would let everybody into those. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """For `open`, of a file that is made by it."""
    return os.open(path, flags, FILE)


def warn_if_open(path: Path, what: str) -> None:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        log.warning(
            f"every user of this machine can read {what}: chmod 600 {path}", extra={"mode": f"{mode:o}"}
        )
