"""The files of all tenants: which there are, whose they are, how much they take. `service.py` and `led_job.py` ask
it before anything is written. It touches no disk."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from penstock.errors import NotFound, Overloaded, OverQuota, TooLarge
from penstock.jobs import StoredFile

LATER = 60.0  # seconds after which room may be tried for again


@dataclass(frozen=True, slots=True)
class JobBounds:
    """What files and jobs may take. The configuration says all of it."""

    max_file: int = 64 * 2**20  # bytes of a file that a client sends
    max_bytes: int = 4 * 2**30  # of all files, and of what jobs have written
    max_files: int = 10_000
    max_lines: int = 50_000  # of one file that is run
    max_line: int = 2**20  # bytes
    max_jobs: int = 1_000  # that are not over
    share: float = 0.4  # the part of each that one tenant may have
    keep: float = 30 * 24 * 3600.0  # seconds
    window: float = 24 * 3600.0  # seconds in which a job must be done


class Shelf:
    def __init__(self, bounds: JobBounds) -> None:
        self.bounds = bounds
        self._files: dict[str, StoredFile] = {}
        self._bytes: Counter[str] = Counter()  # by tenant, of files and of what jobs have written
        self._numbers: Counter[str] = Counter()  # of files, by tenant

    def check(self, tenant: str, size: int) -> None:
        """Refuse a file of this size for which there is no room."""
        bounds = self.bounds
        if size > bounds.max_file:
            raise TooLarge(f"the file has {size} bytes, and files.max_file is {bounds.max_file}")
        if len(self._files) >= bounds.max_files:
            raise Overloaded(
                f"there are {bounds.max_files} files already (files.max_files)", retry_after=LATER
            )
        if self._numbers[tenant] >= bounds.max_files * bounds.share:
            raise OverQuota(
                "this tenant has too many files: delete some (files.max_files, limits.tenant_share)",
                retry_after=LATER,
            )
        if self._bytes.total() + size > bounds.max_bytes:
            raise Overloaded(
                "there is no room for this file (files.max_bytes): try again later", retry_after=LATER
            )
        if self._bytes[tenant] + size > bounds.max_bytes * bounds.share:
            raise OverQuota(
                "the files of this tenant take too much: delete some (files.max_bytes, limits.tenant_share)",
                retry_after=LATER,
            )

    def has_room(self, tenant: str) -> bool:
        """Whether a job of this tenant may write more."""
        return (
            self._bytes.total() < self.bounds.max_bytes
            and self._bytes[tenant] < self.bounds.max_bytes * self.bounds.share
        )

    def weigh(self, tenant: str, size: int) -> None:
        """Count bytes that are written for a tenant, or give them back."""
        self._bytes[tenant] += size
        if not self._bytes[tenant]:
            del self._bytes[tenant]

    def put(self, file: StoredFile) -> None:
        """Show a file from now on, and count its bytes."""
        if file.id in self._files:
            return
        self._files[file.id] = file
        self._numbers[file.tenant] += 1
        self.weigh(file.tenant, file.size)

    def take(self, file: StoredFile) -> None:
        if self._files.pop(file.id, None) is not None:
            self.weigh(file.tenant, -file.size)
            self._numbers[file.tenant] -= 1
            if not self._numbers[file.tenant]:
                del self._numbers[file.tenant]

    def find(self, tenant: str, file_id: str) -> StoredFile:
        """The file, if it is there and belongs to this tenant. Raises NotFound."""
        file = self._files.get(file_id)
        if file is None or file.tenant != tenant:
            raise NotFound(f"no file {file_id[:100]!r}")
        return file

    def of(self, tenant: str) -> Sequence[StoredFile]:
        found = [file for file in self._files.values() if file.tenant == tenant]
        return sorted(found, key=lambda file: (file.created, file.id), reverse=True)

    def expired(self, now: float) -> Iterable[StoredFile]:
        return [file for file in self._files.values() if file.expires <= now]
