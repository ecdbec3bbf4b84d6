"""Jobs: files of requests that are run when workers would idle. Doors call `Jobs`, which `runtime/jobs` implements;
that keeps everything in a `JobStore` (`adapters/job_store`), and asks through `Lines` (`doors/openai_files`)."""

from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Protocol

from penstock.jobs import Job, Progress, Said, StoredFile
from penstock.ports.waiting import Leaving
from penstock.types import Identity


class JobStore(Protocol):
    """Keeps files and jobs. Every method may take a while, is called from a thread, and raises OSError if the
    storage fails. Only the tail of what a job has written may be lost with the process, and never half a line."""

    def open(self) -> tuple[Sequence[StoredFile], Sequence[Job]]:
        """Take the storage for this process. Returns all that is kept there. Raises UserMistake if another process
        has it."""
        ...

    def close(self) -> None: ...

    def write(self, file: StoredFile, pieces: Sequence[bytes]) -> None:
        """Keep a file: all of it or nothing."""
        ...

    def read(self, file_id: str, offset: int, most: int) -> bytes:
        """Up to so many bytes of a file; empty at its end."""
        ...

    def remove(self, file_id: str) -> None: ...

    def save(self, job: Job) -> None:
        """Keep a job as it is now, in the place of what was kept of it."""
        ...

    def append(self, job: Job, lines: Sequence[bytes], *, good: bool) -> None:
        """Write answers to lines of a job, all of them or none: to its output, or to its errors."""
        ...

    def progress(self, job: Job) -> Progress:
        """What was written of a job. A line that was written in part is taken back."""
        ...

    def publish(self, job: Job, file: StoredFile, *, good: bool) -> int | None:
        """Make a file of the output of a job, or of its errors. Returns its size; None if nothing was written.
        Doing it twice is doing it once."""
        ...

    def forget(self, job: Job) -> None: ...


class ReadLine(Protocol):
    """A line that was read and checked by its door, and has not been asked yet."""

    @property
    def model(self) -> str | None: ...

    @property
    def requests(self) -> int: ...

    def ask(self, answered: Callable[[Said], None]) -> Leaving:
        """Ask it: `answered` is called once, unless the caller leaves. Raises Refused."""
        ...


class Lines(Protocol):
    """The doors through which lines may be asked."""

    @property
    def endpoints(self) -> Collection[str]: ...

    async def read(
        self, endpoint: str, body: bytes, identity: Identity | None, name: str
    ) -> "ReadLine | Said":
        """Read a line's body. `name`: its request id. Returns what is answered if the body is refused."""
        ...

    def refusal(self, endpoint: str, error: Exception, name: str) -> Said:
        """What is answered to a line that was refused."""
        ...


class Jobs(Protocol):
    """What clients can do. Each method knows the files and jobs of one tenant only; to it those of others are not
    there. Every method may raise `errors.Refused`."""

    @property
    def most_bytes(self) -> int:
        """Of one file that a client sends."""
        ...

    async def upload(
        self, tenant: str, name: str, pieces: Sequence[bytes], keep: int | None
    ) -> StoredFile: ...

    def files(self, tenant: str) -> Sequence[StoredFile]:
        """The latest first."""
        ...

    def find_file(self, tenant: str, file_id: str) -> StoredFile: ...

    def content(self, file: StoredFile) -> AsyncIterator[bytes]:
        """Its bytes, piece by piece."""
        ...

    async def remove(self, tenant: str, file_id: str) -> None: ...

    async def create(
        self,
        tenant: str,
        identity: Identity | None,
        endpoint: str,
        input_file: str,
        metadata: Mapping[str, str] | None,
    ) -> Job: ...

    def jobs(self, tenant: str) -> Sequence[Job]:
        """The latest first."""
        ...

    def find_job(self, tenant: str, job_id: str) -> Job: ...

    async def cancel(self, tenant: str, job_id: str) -> Job: ...
