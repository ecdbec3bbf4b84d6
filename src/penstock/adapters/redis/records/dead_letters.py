"""Dead letters in Redis: requests that spent all their attempts, kept for people to look at. Batchers add letters
(`cluster/letter_writer.py`); gateways show, retry and remove them for operators (`cluster/dead_letters.py`). Both
get the `RedisLetters` from `records.py`.

All letters are in one stream, so their ids are unique, in order, and tell the time by Redis' clock. Their number,
bytes and time are bounded, in all and for each tenant. A tenant's oldest letters make room for its new ones
(`dead_letter_scripts.py`).
"""

from collections.abc import Sequence

from msgspec import DecodeError, msgpack

from penstock.adapters.redis.link.connect import Store, guard
from penstock.adapters.redis.link.scripts import Call
from penstock.adapters.redis.records.dead_letter_scripts import ADD, DROP_OLD, PURGE, REMOVE
from penstock.adapters.redis.records.holdings import Bounds
from penstock.adapters.redis.records.holdings import letters as usual_bounds
from penstock.ports.records import no_such_letter
from penstock.types import DeadLetter

_FIELD = b"d"
_VERSION = b"\x01"
WEEK = 7 * 24 * 3600.0  # seconds

_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(DeadLetter).decode


class RedisLetters:
    """Implements `ports.records.Letters`."""

    def __init__(self, store: Store, bounds: Bounds | None = None, ttl: float = WEEK) -> None:
        """`ttl`: seconds that a letter is kept."""
        self._store = store
        self._key = store.keys.dlq
        self._keys = [store.keys.dlq, store.keys.letters_held]
        self._bounds = bounds or usual_bounds()
        self._ttl = round(ttl * 1e3)

    async def add(self, letters: Sequence[DeadLetter]) -> int:
        """Add these letters, and set the id of each. Returns how many older letters were removed to make room."""
        bounds = self._bounds.whole(self._store)
        calls: Sequence[Call] = [
            (self._keys, [letter.tenant, _VERSION + _encode(letter), self._ttl, *bounds])
            for letter in letters
        ]
        dropped = 0
        with guard():
            for letter, answer in zip(letters, await ADD.each(self._store, calls), strict=True):
                if isinstance(answer, Exception):
                    raise answer
                letter.id = answer[0].decode()
                dropped += answer[1]
        return dropped

    async def list(self, limit: int = 100, before: str | None = None) -> list[DeadLetter]:
        """Returns letters, the newest first. `before`: the id of the last letter on the page before."""
        last = "+" if before is None else f"({_checked(before)}"
        with guard():
            await DROP_OLD(self._store.commands, self._keys, [self._ttl])
            entries = await self._store.commands.execute_command(
                "XREVRANGE", self._key, last, "-", "COUNT", limit
            )
        return [letter for entry, fields in entries if (letter := _letter(entry, fields)) is not None]

    async def show(self, letter_id: str) -> DeadLetter:
        known = _checked(letter_id)
        with guard():
            entries = await self._store.commands.execute_command("XRANGE", self._key, known, known)
        letter = _letter(*entries[0]) if entries else None
        if letter is None:
            raise no_such_letter(letter_id)
        return letter

    async def remove(self, letter_id: str) -> None:
        with guard():
            removed = await REMOVE(self._store.commands, self._keys, [_checked(letter_id)])
        if not removed:
            raise no_such_letter(letter_id)

    async def purge(self) -> int:
        """Remove all letters. Returns how many there were."""
        with guard():
            return int(await PURGE(self._store.commands, self._keys))


def _checked(letter_id: str) -> str:
    """Returns the id if it has the form of Redis' ids. Any other text names no letter, and Redis must not read it
    as a range."""
    milliseconds, _, sequence = letter_id.partition("-")
    if not (milliseconds.isascii() and milliseconds.isdigit() and sequence.isascii() and sequence.isdigit()):
        raise no_such_letter(letter_id)
    return letter_id


def _letter(entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter | None:
    """Returns the letter in an entry; None if a version of Penstock that we do not know wrote it."""
    body = fields.get(_FIELD, b"")
    if body[:1] != _VERSION:
        return None
    try:
        letter = _decode(memoryview(body)[1:])
    except DecodeError:
        return None
    letter.id = entry.decode()
    letter.when = int(letter.id.partition("-")[0]) / 1e3
    return letter
