"""Tells whether a file has changed, without reading it: when it was written, its size, and which file it is.

Whoever looks at files again and again compares their states, and reads only what has changed: certificates of the
edge (`edge/tls.py`) and for endpoints (`adapters/backends/endpoint_tls.py`), and functions under `--reload`
(`server/reload.py`).
"""

from pathlib import Path

FileState = tuple[int, int, int]


def state_of(file: Path) -> FileState | None:
    """The state of the file, or of the one that a link leads to. None: it is not there, or cannot be looked at."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
