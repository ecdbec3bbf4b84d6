"""API keys in a JSON file: for one machine, or for files that something else distributes.

`roles/embedded.py` makes the `KeysFile` for `penstock serve`, and `roles/key_store.py` for `penstock keys`. A
server that takes such keys reads the file again and again (`auth/watch.py`). Only `penstock keys` changes it.

A change is written to another file, which then takes the old one's place, so that readers see the old or the new
file and nothing between. Writers take turns by a lock on a third file, because every write makes a new file of
keys.
"""

import asyncio
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import msgspec

from penstock.adapters import private
from penstock.auth.records import KeyRecord
from penstock.errors import StoreDown, UserMistake

FORMAT = 1  # the version of the file's format
MOST_BYTES = 256 * 2**20  # so many bytes of the file are read at most


class _Contents(msgspec.Struct):
    version: int
    keys: list[KeyRecord]


_decoder = msgspec.json.Decoder(_Contents)


class KeysFile:
    """Implements `auth.records.KeyStore`. The file is used in threads, because the disk may be slow and another
    writer may hold the lock."""

    def __init__(self, path: Path, now: Callable[[], float] = time.time) -> None:
        self._path = path
        self._now = now

    async def version(self) -> object:
        return await asyncio.to_thread(self._stamp)

    async def load(self) -> Sequence[KeyRecord]:
        return await asyncio.to_thread(self._load)

    async def add(self, record: KeyRecord) -> None:
        def change(records: list[KeyRecord]) -> list[KeyRecord]:
            if any(known.id == record.id for known in records):
                raise UserMistake(f"there is a key {record.id} already")
            return [*records, record]

        await asyncio.to_thread(self._change, change)

    async def revoke(self, key_id: str) -> KeyRecord:
        def change(records: list[KeyRecord]) -> list[KeyRecord]:
            if all(known.id != key_id for known in records):
                raise UserMistake(
                    f"there is no key {key_id!r} in {self._path}: penstock keys list shows them"
                )
            return [self._revoked(each) if each.id == key_id else each for each in records]

        changed = await asyncio.to_thread(self._change, change)
        return next(record for record in changed if record.id == key_id)

    async def close(self) -> None:
        """Does nothing: no file is held open."""

    def _revoked(self, record: KeyRecord) -> KeyRecord:
        return record if record.revoked is not None else replace(record, revoked=self._now())

    # ---- in a thread -------------------------------------------------------------------------------------

    def _stamp(self) -> object:
        with self._explained():
            found = self._path.stat()
            return found.st_ino, found.st_mtime_ns, found.st_size

    def _load(self) -> list[KeyRecord]:
        records = self._read()
        with self._explained():
            private.warn_if_open(self._path, "the hashes of the API keys")
        return records

    def _read(self) -> list[KeyRecord]:
        with self._explained(), self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_mode & stat.S_IWOTH:
                raise UserMistake(
                    f"every user of this machine can write to {self._path} and so make keys: chmod 600 {self._path}"
                )
            text = file.read(MOST_BYTES)
        try:
            contents = _decoder.decode(text)
        except msgspec.MsgspecError as error:
            raise UserMistake(f"{self._path} is not a file of keys: {error}") from None
        if contents.version != FORMAT:
            raise UserMistake(
                f"another version of Penstock wrote {self._path} (format {contents.version}): use that version"
            )
        return contents.keys

    def _change(self, change: Callable[[list[KeyRecord]], list[KeyRecord]]) -> list[KeyRecord]:
        with self._explained(), self._alone():
            changed = change(self._read() if self._path.exists() else [])
            self._write(changed)
        return changed

    def _write(self, records: list[KeyRecord]) -> None:
        target = self._path.resolve()  # behind a link, the file is replaced and not the link
        text = msgspec.json.format(msgspec.json.encode(_Contents(FORMAT, records)), indent=1)
        handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                os.fchmod(file.fileno(), private.FILE)
                file.write(text + b"\n")
                file.flush()
                os.fsync(file.fileno())
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds the lock while the file of keys is changed, so that no other process changes it meanwhile."""
        target = self._path.resolve()
        if not target.parent.is_dir():
            raise UserMistake(
                f"there is no folder {target.parent}: make it, or name another file with --keys"
            )
        lock = os.open(
            target.parent / f".{target.name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE
        )
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Translates an error of the file system into a message that says what to do."""
        try:
            yield
        except FileNotFoundError:
            hint = "penstock keys create makes one"
            raise UserMistake(f"there is no file of keys at {self._path}: {hint}") from None
        except (PermissionError, IsADirectoryError, NotADirectoryError) as error:
            raise UserMistake(f"the keys in {self._path} cannot be reached: {error.strerror}") from None
        except OSError as error:
            said = f"the keys in {self._path} cannot be reached: {error.strerror}"
            raise StoreDown(said, retry_after=1.0) from error
