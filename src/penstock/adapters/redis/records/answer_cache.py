"""Answers that gateways keep for each other in Redis. The cache of a gateway fetches and keeps them in bulk
(`runtime/collapse/shared_answers.py`). `records.py` makes the `RedisAnswers`. Answers are read with MGET, and Redis
forgets them when their time is over.

In a cluster the keys of one command must be in one hash slot, so the cache has as many parts as there are shards,
each in a hash slot of its own. Any error of Redis only means that there is no cache now. A value carries its
checksum, so that a value which another program has written there is not taken for an answer.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any
from zlib import crc32

from redis.exceptions import RedisError

from penstock.adapters.redis.link.connect import Store, is_outage
from penstock.adapters.redis.link.scripts import Call, Script
from penstock.errors import StoreDown

_CHECK = 4  # bytes of the checksum

# KEYS one for each answer; ARGV for each answer its value and its lifetime in ms.
KEEP = Script("""
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[2 * i - 1], 'PX', ARGV[2 * i])
end
return #KEYS
""", flags="")  # fmt: skip


class RedisAnswers:
    """Implements `ports.records.AnswerStore`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._number = store.settings.shards  # of parts, in a cluster

    async def fetch(self, fingerprints: Sequence[bytes]) -> list[bytes | None]:
        parts = self._by_part(fingerprints)
        key = self._key
        answers = await self._store.each(
            [("MGET", *(key(part, fingerprints[index]) for index in indices)) for part, indices in parts]
        )
        found: list[bytes | None] = [None] * len(fingerprints)
        for (_, indices), values in zip(parts, _good(answers), strict=True):
            for index, value in zip(indices, values, strict=True):
                found[index] = None if value is None else self._checked(value, fingerprints[index])
        return found

    def _checked(self, value: bytes, fingerprint: bytes) -> bytes | None:
        kept = value[_CHECK:]
        if value[:_CHECK] == _checksum(kept):
            return kept
        self._store.aside.add("cached answer", "the cache", "its checksum is wrong", value)
        return None

    async def keep(self, answers: Sequence[tuple[bytes, bytes, float]]) -> None:
        calls: list[Call] = []
        for part, indices in self._by_part([fingerprint for fingerprint, _, _ in answers]):
            keys = [self._key(part, answers[index][0]) for index in indices]
            arguments: list[bytes | int] = []
            for index in indices:
                _, value, ttl = answers[index]
                arguments += (_checksum(value) + value, max(1, round(ttl * 1000)))
            calls.append((keys, arguments))
        _good(await KEEP.each(self._store, calls))

    def _by_part(self, fingerprints: Sequence[bytes]) -> list[tuple[int, list[int]]]:
        """Returns parts of the cache, each with the indices of the fingerprints that belong to it. One command asks
        for all of one part."""
        if not self._store.clustered:
            return [(0, list(range(len(fingerprints))))] if fingerprints else []
        parts: defaultdict[int, list[int]] = defaultdict(list)
        for index, fingerprint in enumerate(fingerprints):
            parts[fingerprint[0] % self._number].append(index)
        return list(parts.items())

    def _key(self, part: int, fingerprint: bytes) -> bytes:
        return self._store.keys.answer(part) + fingerprint


def _checksum(value: bytes) -> bytes:
    return crc32(value).to_bytes(_CHECK, "big")


def _good(answers: list[Any]) -> list[Any]:
    """Returns the answers, or raises the first error among them."""
    for answer in answers:
        if isinstance(answer, RedisError | OSError) or (isinstance(answer, Exception) and is_outage(answer)):
            raise StoreDown("the cache cannot be reached", details=str(answer)) from answer
        if isinstance(answer, Exception):
            raise answer
    return answers
