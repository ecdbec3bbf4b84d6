"""Keeps files and jobs in a directory. Implements `ports.jobs.JobStore`; `roles/jobs.py` makes it.

    lock                         held by the process that has the directory
    files/file-….jsonl           the bytes of a file
    files/file-….json            whose it is, and until when
    jobs/batch_….json            a job as it stands
    jobs/batch_….output, .errors what it has written so far: a line for each line of its input that has its answer

What a job has written is its journal too. Each line begins with the index of the line of the input that it answers,
so after a restart these two files say what is left to do. A line is written at its end with a newline: one without
was cut short, and is taken back. A file is there once its `.json` is, which is written last and in one step.

Everything is private to the server's user.
"""

import fcntl
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import msgspec

from penstock.adapters import private
from penstock.errors import UserMistake
from penstock.jobs import Job, Progress, StoredFile

ID = re.compile(r"(?:file-|batch_)[0-9a-f]{24}")
PIECE = 256 * 1024  # bytes that are read at once
# How a line begins: with its name (`jobs.line_name`).
_INDEX = re.compile(rb'\{"id":"batch_req_[0-9a-f]{24}_(\d+)"')

T = TypeVar("T")


class DirectoryStore:
    def __init__(self, root: Path) -> None:
        self._root = root
        self._files, self._jobs = root / "files", root / "jobs"
        self._lock = -1

    # ---- the directory -------------------------------------------------------------------------------------

    def open(self) -> tuple[Sequence[StoredFile], Sequence[Job]]:
        try:
            for folder in (self._root, self._files, self._jobs):
                private.make_folder(folder)
            private.warn_if_open(self._root, "the files of clients (files.directory)")
            self._lock = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, private.FILE)
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise UserMistake(
                f"another process has the directory {self._root}: give each its own (files.directory)"
            ) from None
        except OSError as error:
            self.close()
            raise UserMistake(f"files.directory: {self._root}: {error.strerror}") from None
        files = list(self._records(self._files, StoredFile))
        jobs = list(self._records(self._jobs, Job))
        # The files of a job that was ending may be there before their records.
        due = {name for job in jobs for name in (job.output_file, job.error_file) if name is not None}
        self._sweep({file.id for file in files} | due, {job.id for job in jobs})
        return files, jobs

    def close(self) -> None:
        lock, self._lock = self._lock, -1
        if lock >= 0:
            os.close(lock)

    def _records(self, folder: Path, of: type[T]) -> Iterator[T]:
        for path in sorted(folder.glob("*.json")):
            try:
                yield msgspec.json.decode(path.read_bytes(), type=of)
            except (msgspec.MsgspecError, UnicodeDecodeError):
                path.rename(path.with_suffix(".unreadable"))  # for people to look at

    def _sweep(self, files: set[str], jobs: set[str]) -> None:
        """Delete what a process that died has left half done."""
        for folder, known in ((self._files, files), (self._jobs, jobs)):
            for path in folder.iterdir():
                if path.suffix == ".new" or (path.suffix != ".unreadable" and path.stem not in known):
                    path.unlink()

    # ---- files ---------------------------------------------------------------------------------------------

    def write(self, file: StoredFile, pieces: Sequence[bytes]) -> None:
        path = self._content(file.id)
        try:
            with open(path, "wb", opener=private.opener) as content:
                content.writelines(pieces)
                content.flush()
                os.fsync(content.fileno())
            self._replace(self._files / f"{file.id}.json", msgspec.json.encode(file))
        except OSError:
            with suppress(OSError):
                path.unlink()
            raise

    def read(self, file_id: str, offset: int, most: int) -> bytes:
        with self._content(file_id).open("rb", buffering=0) as content:
            content.seek(offset)
            return content.read(most) or b""

    def remove(self, file_id: str) -> None:
        for path in (self._files / f"{_checked(file_id)}.json", self._content(file_id)):
            path.unlink(missing_ok=True)

    def _content(self, file_id: str) -> Path:
        return self._files / f"{_checked(file_id)}.jsonl"

    # ---- jobs ----------------------------------------------------------------------------------------------

    def save(self, job: Job) -> None:
        self._replace(self._jobs / f"{_checked(job.id)}.json", msgspec.json.encode(job))

    def append(self, job: Job, lines: Sequence[bytes], *, good: bool) -> None:
        whole = b"".join(lines)
        with open(self._written(job, good=good), "ab", buffering=0, opener=private.opener) as file:
            before = file.tell()
            try:
                if file.write(whole) != len(whole):
                    raise OSError("the disk took a part of what was written")
            except OSError:
                file.truncate(before)
                raise

    def progress(self, job: Job) -> Progress:
        answered, counts, written = set[int](), [0, 0], 0
        for good in (True, False):
            path = self._written(job, good=good)
            if path.exists():
                whole, indices = _read_back(path)
                os.truncate(path, whole)
                written += whole
                counts[good] = len(indices - answered)
                answered |= indices
        return Progress(answered, counts[True], counts[False], written)

    def publish(self, job: Job, file: StoredFile, *, good: bool) -> int | None:
        source, target = self._written(job, good=good), self._content(file.id)
        if source.exists():
            with source.open("rb") as written:
                os.fsync(written.fileno())
            source.replace(target)
        if not target.exists():
            return None
        size = target.stat().st_size
        named = msgspec.structs.replace(file, size=size)
        self._replace(self._files / f"{file.id}.json", msgspec.json.encode(named))
        return size

    def forget(self, job: Job) -> None:
        for path in (
            self._written(job, good=True),
            self._written(job, good=False),
            self._jobs / f"{job.id}.json",
        ):
            path.unlink(missing_ok=True)

    def _written(self, job: Job, *, good: bool) -> Path:
        return self._jobs / f"{_checked(job.id)}.{'output' if good else 'errors'}"

    def _replace(self, path: Path, content: bytes) -> None:
        """Write a file in one step, so that it is there as a whole or as it was before."""
        new = path.with_suffix(".new")
        with open(new, "wb", opener=private.opener) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _checked(name: str) -> str:
    assert ID.fullmatch(name), name  # callers look names up first; nothing else may become a path
    return name


def _read_back(path: Path) -> tuple[int, set[int]]:
    """Returns the bytes of all whole lines, and the indices of the lines of the input that they answer."""
    indices, size = set[int](), 0
    with path.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            size += len(line)
            found = _INDEX.match(line)
            if found is not None:
                indices.add(int(found[1]))
    return size, indices
