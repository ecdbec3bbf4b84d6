"""Files and jobs, as the doors know them: `ports.jobs.Jobs`. `roles/jobs.py` makes it for a process with clients,
whose companion it is: it opens the store, runs what is not over, and lets go of everything at the end."""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from penstock.core import job_states
from penstock.core.job_restraint import RestraintRules
from penstock.errors import Conflict, NotFound, Overloaded, OverQuota, StoreDown, Unacceptable
from penstock.jobs import UPLOADED, Job, JobStatus, Slack, StoredFile
from penstock.loops import Loops
from penstock.ports.jobs import JobStore, Lines
from penstock.runtime.jobs.led_job import Around, Aside
from penstock.runtime.jobs.runner import Runner
from penstock.runtime.jobs.shelf import LATER, JobBounds, Shelf
from penstock.types import Identity

PIECE = 128 * 1024  # bytes of a file in one piece of its content
THREADS = 2
TIDY = 60.0  # seconds from one look for what has expired to the next

log = logging.getLogger("penstock.jobs")

T = TypeVar("T")


class InThreads:
    """Does in threads of its own what may take a while. Implements `led_job.Aside`."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(THREADS, "penstock-files")

    async def __call__(self, work: Callable[[], T], /) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

    def close(self) -> None:
        self._pool.shutdown(wait=False)


class JobService:
    def __init__(
        self,
        store: JobStore,
        bounds: JobBounds,
        slack: Callable[[str | None], Slack],
        rules: RestraintRules,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        aside: Aside | None = None,
    ) -> None:
        """`slack`: how busy the workers of a model are. `aside`: does what touches the disk; None: threads do."""
        self._store, self._clock, self._wall_clock = store, clock, wall_clock
        self._threads = InThreads() if aside is None else None
        self._aside: Aside = aside or self._threads_of()
        self._shelf = Shelf(bounds)
        self._jobs: dict[str, Job] = {}
        self.runner = Runner(slack, rules, clock)
        self.lines: Lines | None = None  # set once the doors are there

    def _threads_of(self) -> Aside:
        assert self._threads is not None
        return self._threads

    # ---- its life ----------------------------------------------------------------------------------------

    async def open(self, loops: Loops) -> None:
        files, jobs = await self._aside(self._store.open)
        for file in files:
            self._shelf.put(file)
        for job in sorted(jobs, key=lambda job: (job.created, job.id)):
            self._jobs[job.id] = job
            if not job.is_over:
                self.runner.add(job)
        loops.keep("the batches of files", self._run)
        loops.keep("the tidying of files", self._tidy)

    async def close(self) -> None:
        await self._aside(self._store.close)
        if self._threads is not None:
            self._threads.close()

    async def _run(self) -> None:
        assert self.lines is not None
        await self.runner.run(
            Around(
                self._store, self.lines, self._shelf, self._aside, self._changed, self.runner.look,
                self._wall_clock, self._clock, self._clock(),
            )
        )  # fmt: skip

    def _changed(self, job: Job) -> None:
        self._jobs[job.id] = job

    async def _tidy(self) -> None:
        """Delete files whose time is over, and forget jobs that have been over for as long."""
        while True:
            now = self._wall_clock()
            for file in self._shelf.expired(now):
                if not self._is_needed(file):
                    await self._remove(file)
            for job in list(self._jobs.values()):
                if (
                    job.is_over
                    and max(job.since.values(), default=job.created) + self._shelf.bounds.keep <= now
                ):
                    await self._aside(partial(self._store.forget, job))
                    del self._jobs[job.id]
            await asyncio.sleep(TIDY)

    # ---- files -------------------------------------------------------------------------------------------

    @property
    def most_bytes(self) -> int:
        return self._shelf.bounds.max_file

    async def upload(self, tenant: str, name: str, pieces: Sequence[bytes], keep: int | None) -> StoredFile:
        size, now = sum(map(len, pieces)), int(self._wall_clock())
        self._shelf.check(tenant, size)
        longest = int(self._shelf.bounds.keep)
        file = StoredFile(
            id=f"file-{secrets.token_hex(12)}", tenant=tenant, name=name, purpose=UPLOADED, size=size,
            created=now, expires=now + min(longest, keep or longest),
        )  # fmt: skip
        self._shelf.weigh(tenant, size)  # its room is taken while it is being written
        try:
            await self._aside(lambda: self._store.write(file, pieces))
        except OSError as error:
            log.error("a file could not be written", extra={"error": str(error)})
            raise StoreDown("the file could not be written: the disk failed", retry_after=LATER) from None
        finally:
            self._shelf.weigh(tenant, -size)
        self._shelf.put(file)
        return file

    def files(self, tenant: str) -> Sequence[StoredFile]:
        return self._shelf.of(tenant)

    def find_file(self, tenant: str, file_id: str) -> StoredFile:
        return self._shelf.find(tenant, file_id)

    async def content(self, file: StoredFile) -> AsyncIterator[bytes]:
        offset = 0
        while offset < file.size:
            piece = await self._aside(partial(self._store.read, file.id, offset, PIECE))
            if not piece:
                raise OSError("the file is shorter than it was")
            yield piece
            offset += len(piece)

    async def remove(self, tenant: str, file_id: str) -> None:
        file = self._shelf.find(tenant, file_id)
        if self._is_needed(file):
            raise Conflict("a batch that is not over reads this file: cancel it first")
        await self._remove(file)

    async def _remove(self, file: StoredFile) -> None:
        self._shelf.take(file)
        await self._aside(lambda: self._store.remove(file.id))
        self.runner.look()  # a batch may have waited for the room

    def _is_needed(self, file: StoredFile) -> bool:
        return any(job.input_file == file.id and not job.is_over for job in self._jobs.values())

    # ---- jobs --------------------------------------------------------------------------------------------

    async def create(
        self,
        tenant: str,
        identity: Identity | None,
        endpoint: str,
        input_file: str,
        metadata: Mapping[str, str] | None,
    ) -> Job:
        file = self._shelf.find(tenant, input_file)
        if file.purpose != UPLOADED:
            raise Unacceptable("'input_file_id' must be a file whose purpose is batch")
        self._check_number(tenant)
        now = int(self._wall_clock())
        job = Job(
            id=f"batch_{secrets.token_hex(12)}", tenant=tenant, endpoint=endpoint, input_file=input_file,
            created=now, expires=now + int(self._shelf.bounds.window),
            tier=None if identity is None else identity.tier,
            key_id="" if identity is None else identity.key_id,
            metadata=None if metadata is None else dict(metadata),
        )  # fmt: skip
        self._jobs[job.id] = job  # from now on its file is needed
        try:
            await self._aside(lambda: self._store.save(job))
        except BaseException as error:
            del self._jobs[job.id]
            if isinstance(error, OSError):
                raise StoreDown("the batch could not be kept: the disk failed", retry_after=LATER) from None
            raise
        self.runner.add(job)
        return job

    def _check_number(self, tenant: str) -> None:
        bounds = self._shelf.bounds
        going_on = [job for job in self._jobs.values() if not job.is_over]
        if len(going_on) >= bounds.max_jobs:
            raise Overloaded(
                f"{bounds.max_jobs} batches are not over yet (files.max_batches)", retry_after=LATER
            )
        if sum(job.tenant == tenant for job in going_on) >= max(1, bounds.max_jobs * bounds.share):
            raise OverQuota(
                "this tenant has too many batches that are not over (files.max_batches, limits.tenant_share)",
                retry_after=LATER,
            )
        if len(self._jobs) >= bounds.max_files:
            raise Overloaded("too many batches are remembered (files.max_files)", retry_after=LATER)

    def jobs(self, tenant: str) -> Sequence[Job]:
        found = [job for job in self._jobs.values() if job.tenant == tenant]
        return sorted(found, key=lambda job: (job.created, job.id), reverse=True)

    def find_job(self, tenant: str, job_id: str) -> Job:
        job = self._jobs.get(job_id)
        if job is None or job.tenant != tenant:
            raise NotFound(f"no batch {job_id[:100]!r}")
        return job

    async def cancel(self, tenant: str, job_id: str) -> Job:
        job = self.find_job(tenant, job_id)
        if job.is_over or job.status is JobStatus.FINALIZING:
            raise Conflict(f"the batch is {job.status} already")
        led = self.runner.led_job(job_id)
        if led is not None:
            await led.cancel()
        else:
            job = job_states.cancelled(job, self._wall_clock())
            self.runner.withdraw(job_id)
            await self._aside(lambda: self._store.save(job))
            self._changed(job)
            self.runner.add(job)
        return self.find_job(tenant, job_id)
