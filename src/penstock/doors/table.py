"""Finds the door of a path. The data plane asks it with each request; it is made once, of all doors."""

from collections.abc import Sequence

from penstock.doors.door import Door
from penstock.edge.url import split
from penstock.errors import Malformed, NotFound


class Table:
    """All doors, by their paths."""

    def __init__(self, doors: Sequence[Door]) -> None:
        self._exact: dict[str, Door] = {}
        # The doors whose last part stands for any one name, by the path before it.
        self._by_folder: dict[str, Door] = {}
        for door in doors:
            folder, _, last = door.path.rpartition("/")
            if last.startswith("{"):
                self._by_folder[folder] = door
            else:
                self._exact[door.path] = door

    def find(self, path: str) -> Door:
        door = self._exact.get(path)
        if door is None:
            folder, _, name = path.rpartition("/")
            door = self._by_folder.get(folder) if name else None
            if door is None:
                raise NotFound(f"nothing is served at {path[:100]!r}; see /docs")
        return door

    def find_by_url(self, url: bytes) -> Door | None:
        """Returns the door of a URL; None if there is none. The URL may be incomplete or empty."""
        try:
            return self.find(split(url)[0])
        except (Malformed, NotFound):
            return None
