"""What could not be read: it is counted, logged once for each kind and source, and kept for a while for people to
look at. Whatever reads from Redis in `redis/bus` and `redis/records` adds to it, and so does a batcher's intake
(`adapters/in_hand.py`). The admin plane shows it.

The whole installation keeps it in one stream, bounded in entries, in bytes of each entry and in age. `add` never
waits and never fails: a loop writes the entries, and those that come faster than it writes are only counted.
"""

import asyncio
import logging
from collections import Counter, deque
from typing import TYPE_CHECKING, Any

from redis.exceptions import RedisError

from penstock.adapters.redis.link.outage import Patience, guard

if TYPE_CHECKING:
    from penstock.adapters.redis.link.connect import Command, Store

log = logging.getLogger("penstock.aside")

MOST_KEPT = 1000  # entries, in all
MOST_BYTES = 4096  # bytes of each entry's body
KEPT_MS = 24 * 3600 * 1000  # milliseconds for which entries are kept
MOST_UNWRITTEN = 256  # entries
MOST_SAID = 1000  # pairs of kind and source that are remembered: beyond that the log says nothing new
GATHER = 0.1  # seconds between two writes
LONGEST_WORD = 200  # characters of an entry's source, and of its reason


class Aside:
    """Implements `ports.bus.Aside`."""

    def __init__(self, store: "Store") -> None:
        self._store = store
        self.me = ""  # our name in the registry, under which entries are put there
        self._unwritten: deque[Command] = deque(maxlen=MOST_UNWRITTEN)
        self._wake = asyncio.Event()  # set when there is something to write
        self._said: set[tuple[str, str]] = set()  # the kinds and sources that the log was told of
        self.counts: Counter[str] = Counter()  # how many were added since the start, by kind
        store.misfits.on_set_aside = self._misfit

    def add(self, kind: str, source: str, why: str, body: bytes = b"") -> None:
        """Set one thing aside. `kind`: what it is, one of a few words. `source`: where it was found, or who sent
        it."""
        self.counts[kind] += 1
        if (kind, source) not in self._said and len(self._said) < MOST_SAID:
            self._said.add((kind, source))
            log.warning(
                "set aside: %s", kind, extra={"source": source[:LONGEST_WORD], "why": why[:LONGEST_WORD]}
            )
        self._unwritten.append(
            (
                "XADD", self._store.keys.aside, "MAXLEN", "~", MOST_KEPT, "*", "kind", kind,
                "source", _clean(source), "why", _clean(why), "by", self.me, "size", len(body),
                "body", body[:MOST_BYTES],
            )
        )  # fmt: skip
        self._wake.set()

    def _misfit(self, key: str, found: str) -> None:
        self.add("key of the wrong type", key, f"it was a {found}, and is kept as {key}:aside")

    async def run(self) -> None:
        """Write what was added, until cancelled. While Redis is away the latest entries wait, and older ones are
        dropped."""
        patience = Patience("What is set aside")
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._unwritten:
                commands = [*self._unwritten]
                self._unwritten.clear()
                try:
                    await self._write(commands)
                    patience.succeeded()
                except (RedisError, OSError, RuntimeError) as error:
                    self._unwritten.extendleft(reversed(commands[: MOST_UNWRITTEN - len(self._unwritten)]))
                    await asyncio.sleep(patience.failed(error))
            await asyncio.sleep(GATHER)

    async def _write(self, commands: "list[Command]") -> None:
        key = self._store.keys.aside
        for answer in await self._store.each(commands):
            if isinstance(answer, Exception):
                raise answer
        last = str(answer.decode())
        oldest = max(0, int(last.partition("-")[0]) - KEPT_MS)
        await self._store.each([("XTRIM", key, "MINID", "~", oldest), ("PEXPIRE", key, KEPT_MS)])

    async def list(self, limit: int = 100) -> list[dict[str, Any]]:
        """Returns the entries, the newest first."""
        with guard():
            entries = await self._store.commands.execute_command(
                "XREVRANGE", self._store.keys.aside, "+", "-", "COUNT", limit
            )
        return [_row(entry, fields) for entry, fields in entries]


def _clean(text: str) -> str:
    return text[:LONGEST_WORD].encode(errors="replace").decode()


def _row(entry: bytes, fields: dict[bytes, bytes]) -> dict[str, Any]:
    said = {
        name: fields.get(name.encode(), b"").decode(errors="replace")
        for name in ("kind", "source", "why", "by")
    }
    size = fields.get(b"size", b"")
    return {
        "when": int(entry.partition(b"-")[0]) / 1e3,
        **said,
        "size": int(size) if size.isdigit() else 0,
        "body": fields.get(b"body", b"").decode("latin-1").encode("unicode_escape").decode(),
    }
