"""Finds the door of a path. The data plane asks it with each request; it is made once, of all doors."""

import re
from collections.abc import Sequence

from penstock.doors.door import Door
from penstock.edge.url import split
from penstock.errors import Malformed, NotFound

_NAME = re.compile(r"\{\w+\}")


class Table:
    """All doors, by their paths."""

    def __init__(self, doors: Sequence[Door]) -> None:
        self._exact = {door.path: door for door in doors if "{" not in door.path}
        # The doors whose path has parts in braces, each of which stands for any one name.
        self._patterns = [(_pattern(door.path), door) for door in doors if "{" in door.path]

    def find(self, path: str) -> Door:
        door = self._exact.get(path)
        if door is None:
            for pattern, each in self._patterns:
                if pattern.fullmatch(path):
                    return each
            raise NotFound(f"nothing is served at {path[:100]!r}; see /docs")
        return door

    def find_by_url(self, url: bytes) -> Door | None:
        """Returns the door of a URL; None if there is none. The URL may be incomplete or empty."""
        try:
            return self.find(split(url)[0])
        except (Malformed, NotFound):
            return None


def _pattern(path: str) -> "re.Pattern[str]":
    return re.compile("[^/]+".join(map(re.escape, _NAME.split(path))))
