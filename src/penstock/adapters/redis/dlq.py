"""Dead letters: requests that spent all their attempts, kept for people to look at (SPEC E4).

One stream, so its ids are unique, in order, and tell the time by Redis's clock. Bounded: the oldest go first.
"""

from collections.abc import Sequence
from typing import Any

from msgspec import DecodeError, msgpack

from penstock.adapters.redis.connect import Store, guard
from penstock.errors import NotFound
from penstock.types import DeadLetter

_FIELD = b"d"
_VERSION = b"\x01"


_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(DeadLetter).decode


class DeadLetters:
    def __init__(self, store: Store, bound: int = 10_000) -> None:
        self._store = store
        self._key = store.keys.dlq
        self._bound = bound

    async def add(self, letters: Sequence[DeadLetter]) -> None:
        """Each is given its id."""
        commands: list[tuple[Any, ...]] = [
            ("XADD", self._key, "*", _FIELD, _VERSION + _encode(letter)) for letter in letters
        ]
        with guard():
            for letter, answer in zip(letters, await self._store.each(commands), strict=True):
                if isinstance(answer, Exception):
                    raise answer
                letter.id = answer.decode()
            await self._store.commands.execute_command("XTRIM", self._key, "MAXLEN", self._bound)

    async def list(self, limit: int = 100, before: str | None = None) -> list[DeadLetter]:
        """The newest first; `before`: the id of the last one on the page before."""
        last = "+" if before is None else f"({_checked(before)}"
        with guard():
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
            raise _unknown(letter_id)
        return letter

    async def remove(self, letter_id: str) -> None:
        with guard():
            removed = await self._store.commands.execute_command("XDEL", self._key, _checked(letter_id))
        if not removed:
            raise _unknown(letter_id)

    async def purge(self) -> int:
        """All of them; how many there were."""
        with guard():
            return int(await self._store.commands.execute_command("XTRIM", self._key, "MAXLEN", 0))


def _checked(letter_id: str) -> str:
    """An id as Redis writes it: anything else names no letter, and must not be read as a range."""
    milliseconds, _, sequence = letter_id.partition("-")
    if not (milliseconds.isascii() and milliseconds.isdigit() and sequence.isascii() and sequence.isdigit()):
        raise _unknown(letter_id)
    return letter_id


def _unknown(letter_id: str) -> NotFound:
    return NotFound(f"no dead letter {letter_id!r}: it was removed or retried, or made room for newer ones")


def _letter(entry: bytes, fields: dict[bytes, bytes]) -> DeadLetter | None:
    """None for one of a version that we do not know."""
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
