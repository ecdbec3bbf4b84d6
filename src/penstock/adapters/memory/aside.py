"""Keeps in memory what could not be read, for people to look at. `bus.py` makes one; tests run members on that
bus."""

from collections import Counter, deque
from typing import Any

from penstock.loops import for_ever

MOST_KEPT = 1000  # entries
MOST_BYTES = 4096  # bytes of each entry


class MemoryAside:
    """Implements `ports.bus.Aside`."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._kept: deque[dict[str, Any]] = deque(maxlen=MOST_KEPT)

    def add(self, kind: str, source: str, why: str, body: bytes = b"") -> None:
        self.counts[kind] += 1
        shown = body[:MOST_BYTES].decode(errors="replace")
        self._kept.append({"kind": kind, "source": source, "why": why, "size": len(body), "body": shown})

    async def list(self, limit: int = 100) -> list[dict[str, Any]]:
        return [*reversed(self._kept)][:limit]

    async def run(self) -> None:
        """Does nothing until cancelled: `add` has already kept everything."""
        await for_ever()
