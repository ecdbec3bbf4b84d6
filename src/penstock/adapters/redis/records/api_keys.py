"""API keys in Redis, for all gateways of an installation. Every gateway that takes API keys reads them again and
again (`auth/watch.py`); only `penstock keys` changes them.
`roles/gateway.py` and `roles/key_store.py` make the `RedisKeys`.

A record never changes once it is written. Beside it stands whether the key is revoked, which cannot be taken back.
Each change sets a stamp, and a gateway asks for nothing but the stamp while it stays the same. The stamp is a time
and not a count: a Redis that lost changes (after a restart or a failover) would count to the same number again with
other keys.

A record that cannot be read is set aside, and the others are read all the same. If the gateway knew its key, it
still goes by what it knew. A key whose revocation cannot be read counts as revoked.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
from redis.exceptions import ResponseError

from penstock.adapters.redis.link.connect import Store, guard, is_outage
from penstock.adapters.redis.link.scripts import NOW, Script
from penstock.auth.records import KeyRecord
from penstock.errors import StoreDown, UserMistake

_decoder = msgspec.json.Decoder(KeyRecord)

# KEYS records, revoked, stamp. Returns all records, and of those that are revoked since when, in ms.
_LOAD = Script("return {redis.call('HGETALL', KEYS[1]), redis.call('HGETALL', KEYS[2])}")

# The function `stamp` sets the stamp: microseconds, always later than the last stamp, whatever the server's clock
# does.
_STAMP = f"""{NOW}
local function stamp()
  local last = tonumber(redis.call('GET', KEYS[3])) or 0
  redis.call('SET', KEYS[3], string.format('%.0f', math.max(clock[1] * 1000000 + clock[2], last + 1)))
end
"""

# KEYS records, revoked, stamp; ARGV id, record. Adds a record; returns 1, or 0 when there is one of this id.
_ADD = Script(f"""{_STAMP}
if redis.call('HSETNX', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
stamp()
return 1
""")

# KEYS records, revoked, stamp; ARGV id. Revokes a key. Returns its record and since when it is revoked, in ms; nil
# when there is no such key.
_REVOKE = Script(f"""{_STAMP}
local record = redis.call('HGET', KEYS[1], ARGV[1])
if not record then return false end
local since = string.format('%.0f', now)
if redis.call('HSETNX', KEYS[2], ARGV[1], since) == 1 then stamp() end
return {{record, redis.call('HGET', KEYS[2], ARGV[1])}}
""")


class RedisKeys:
    """Implements `auth.records.KeyStore`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        tag = f"{{{store.keys.namespace}:keys}}"
        self._keys = [tag, f"{tag}:revoked", f"{tag}:stamp"]  # in this order: a hash, a hash, a string
        self._seen = False  # whether there ever were keys
        self._known: dict[bytes, KeyRecord] = {}  # the records as they were read last

    async def version(self) -> object:
        """Returns the stamp of the last change. A Redis that has lost the keys counts as away, so that gateways go
        on with the keys that they know."""
        with guard(), self._guard():
            stamp: bytes | None = await self._store.commands.execute_command("GET", self._keys[2])
        if stamp is None and self._seen:
            raise StoreDown("Redis has lost the API keys: make them anew, or restore it.", retry_after=1.0)
        self._seen |= stamp is not None
        return stamp

    async def load(self) -> Sequence[KeyRecord]:
        with guard(), self._guard():
            found, revoked = await _LOAD(self._store.commands, self._keys)
        since = dict(zip(revoked[::2], revoked[1::2], strict=True))
        records = {}
        for name, text in zip(found[::2], found[1::2], strict=True):
            record = self._read(name, text)
            if record is not None:
                records[name] = record
        if found and not records:
            raise UserMistake(f"{self._keys[0]} in {self._store.where} holds no API keys")
        self._known = records
        return [_as_revoked(record, since.get(name)) for name, record in records.items()]

    def _read(self, name: bytes, text: bytes) -> KeyRecord | None:
        try:
            record = _decoder.decode(text)
            if record.id.encode() == name:
                return record
            why = "it is the record of another key"
        except (msgspec.MsgspecError, UnicodeError) as error:
            why = str(error)
        # The text of the record is not set aside, because it is a secret.
        self._store.aside.add("API key", name.decode(errors="replace"), why)
        return self._known.get(name)

    @contextmanager
    def _guard(self) -> Iterator[None]:
        """Raises StoreDown where the API keys cannot be read. A Redis key of the wrong type in their place is never
        put out of the way; gateways go on with the API keys that they know."""
        try:
            yield
        except ResponseError as error:
            if is_outage(error):
                raise
            message = f"{self._keys[0]} in {self._store.where} cannot be read as API keys: put it right"
            raise StoreDown(message, retry_after=1.0, details=str(error)) from error

    async def add(self, record: KeyRecord) -> None:
        with guard(), self._guard():
            added = await _ADD(self._store.commands, self._keys, [record.id, msgspec.json.encode(record)])
        if not added:
            raise UserMistake(f"there is a key {record.id} already")

    async def revoke(self, key_id: str) -> KeyRecord:
        with guard(), self._guard():
            answer: Any = await _REVOKE(self._store.commands, self._keys, [key_id])
        if answer is None:
            raise UserMistake(
                f"there is no key {key_id!r} in {self._store.where}: penstock keys list shows them"
            )
        return _as_revoked(_decoder.decode(answer[0]), answer[1])

    async def close(self) -> None:
        """Does nothing: the connection is closed with the store."""


def _as_revoked(record: KeyRecord, milliseconds: bytes | None) -> KeyRecord:
    if milliseconds is None:
        return record
    return replace(record, revoked=int(milliseconds) / 1e3 if milliseconds.isdigit() else 0.0)
