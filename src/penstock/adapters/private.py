"""What stays private: files and folders that only the server's user may read, and passwords in URLs.

The adapters that keep something on disk or in a database use it, and so does `installation/own_store.py`.

What Penstock makes is private from its first moment. A file that was there before keeps its rights, because
somebody may have shared it on purpose. The log then warns if every user of the machine may use it.
"""

import logging
import os
import stat
from pathlib import Path
from urllib.parse import urlsplit

log = logging.getLogger("penstock.files")

# The rights of private files and folders.
FILE = 0o600
FOLDER = 0o700
_OTHERS = stat.S_IRWXO


def make_file(path: Path, what: str) -> None:
    """Makes sure that the file exists. `what`: what the log calls it when it warns. Raises OSError."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE))
    except FileExistsError:
        warn_if_open(path, what)


def make_folder(path: Path) -> None:
    """Makes a folder, and private ones above it: `mkdir` would let everybody into those. Raises OSError."""
    for folder in (*reversed(path.parents), path):
        if not folder.is_dir():
            folder.mkdir(mode=FOLDER, exist_ok=True)


def opener(path: str, flags: int) -> int:
    """Opens a file for `open(…, opener=opener)`. A new file is private."""
    return os.open(path, flags, FILE)


def warn_if_open(path: Path, what: str) -> None:
    """Warns in the log if users outside the file's group may use it. `what`: what the log calls the file."""
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & _OTHERS:
        log.warning(
            f"every user of this machine can read {what}: chmod 600 {path}", extra={"mode": f"{mode:o}"}
        )


def shown_url(url: str) -> str:
    """Returns a URL as messages may show it: without user and password."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname or ''}{port}{parts.path}"
