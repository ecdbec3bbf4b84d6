"""One job, led from its first state to its last. `runner.py` has one for each job that has its turn, and
starts its lines.

    the file ──read in pieces──► lines ──by their door──► ready ──the runner──► in flight ──► to write ──► the store

What is to be done next is decided in `core/job_states.py`. The disk is touched by way of `aside`, which does it in
a thread. A line whose request is refused stays ready, and the job rests a while; so does a job whose disk is full.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from penstock.core import job_states
from penstock.core.job_states import Next
from penstock.errors import NotFound, Overloaded, OverQuota
from penstock.jobs import MADE, OVER, Answered, Job, JobStatus, Said, StoredFile, line_name
from penstock.ports.jobs import JobStore, Lines, ReadLine
from penstock.ports.waiting import Leaving
from penstock.runtime.jobs.lines import Check, Line, Splitter, answered, not_executed, read_line
from penstock.runtime.jobs.shelf import Shelf

PIECE = 64 * 1024  # bytes of a file that are looked at in one go
MOST_READY = 16  # lines of one job that were read and wait to be asked
MOST_UNWRITTEN = 256  # answers
REST = 1.0  # seconds after a refusal that names no time, or while a disk is full
LONGEST_REST = 60.0
PATIENT = 10.0  # seconds after the start in which a model that is not known may still come
MOST_TRIES = 5  # of a line that found no answer in time
LATER = (429, 503)  # refused, and nothing has been run

log = logging.getLogger("penstock.jobs")

T = TypeVar("T")


class Aside(Protocol):
    """Does something that may take a while, where it holds up nothing."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


@dataclass(frozen=True, slots=True)
class Around:
    """What all led jobs have in common."""

    store: JobStore
    lines: Lines
    shelf: Shelf
    aside: Aside
    changed: Callable[[Job], None]  # is told of each new state of a job
    look: Callable[[], None]  # asks the runner to look what may go
    wall_clock: Callable[[], float] = time.time
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0  # when the runner began, by `clock`


@dataclass(slots=True, eq=False)
class Ready:
    """A line that is to be asked, or is in flight."""

    index: int
    custom_id: str
    read: ReadLine
    paced: bool = False  # whether the runner counts it as in flight
    tries: int = 0
    leaving: Leaving | None = None


class LedJob:
    def __init__(self, job: Job, around: Around) -> None:
        self.job = job
        self._around = around
        self._done: set[int] = set()  # indices of lines whose answers are written, or are about to be
        self._unwritten: list[Answered] = []
        self._written = 0  # bytes
        self.ready: deque[Ready] = deque()
        self.in_flight: set[Ready] = set()
        self._offset = 0  # in the file
        self._splitter = Splitter(around.shelf.bounds.max_line)
        self._came: deque[tuple[int, bytes]] = deque()  # lines that are not read by their door yet
        self._at_end = False
        self._rests_until = 0.0  # no line is asked before then
        self._reads_from = 0.0  # no line is read before then
        self._is_crowded = False
        self._wake = asyncio.Event()
        self._saving = asyncio.Lock()

    # ---- what the runner calls ---------------------------------------------------------------------------

    def next_line(self) -> Ready | None:
        """The line that is to be asked next, if one may be."""
        runs = self.job.status is JobStatus.IN_PROGRESS and not self._is_resting()
        if self.ready and runs and self._has_room():
            return self.ready[0] if self._around.wall_clock() < self.job.expires else None
        return None

    def _has_room(self) -> bool:
        """Whether more may be written for its tenant. If not, the log says so once."""
        crowded = not self._around.shelf.has_room(self.job.tenant)
        if crowded and not self._is_crowded:
            log.warning("a batch waits: its tenant's files leave no room", extra={"batch": self.job.id})
        self._is_crowded = crowded
        return not crowded

    def start(self, ended: Callable[[Ready], None]) -> None:
        """Ask the next line. `ended` is called when it is not in flight any more."""
        line = self.ready.popleft()
        self.in_flight.add(line)

        def take(said: Said) -> None:
            if line in self.in_flight:
                self.in_flight.discard(line)
                self._take(line, said)
                ended(line)

        try:
            line.leaving = line.read.ask(take)
        except Exception as error:
            name = line_name(self.job.id, line.index)
            take(self._around.lines.refusal(self.job.endpoint, error, name))

    async def cancel(self) -> None:
        await self._save(job_states.cancelled(self.job, self._around.wall_clock()))
        self._wake.set()

    def leave(self) -> list[Ready]:
        """Withdraw what is in flight. Returns those lines."""
        left = list(self.in_flight)
        self.in_flight.clear()
        for line in left:
            if line.leaving is not None:
                line.leaving.left()
        return left

    # ---- from state to state -----------------------------------------------------------------------------

    async def run(self, withdrawn: Callable[[Ready], None]) -> None:
        """Lead the job to its end. `withdrawn` is called with lines that were in flight when it was cancelled."""
        await self._find_again()
        while True:
            now = self._around.wall_clock()
            written = len(self._done) if not self._unwritten else -1
            job = job_states.ticked(self.job, written, len(self.in_flight), now)
            if job is not self.job:
                await self._save(job)
            if self.job.status is JobStatus.CANCELLING:
                for line in self.leave():
                    withdrawn(line)
            match job_states.next_for(self.job, len(self._done), len(self.in_flight), now):
                case Next.NOTHING:
                    return
                case Next.CHECK:
                    await self._check()
                case Next.RUN | Next.WAIT if self._unwritten:
                    await self._write()
                case Next.RUN if self._may_read():
                    await self._read_one()
                case Next.RUN | Next.WAIT:
                    await self._wait()
                case Next.WRITE_REST:
                    await self._write_rest()
                case Next.CLOSE:
                    await self._close()

    def _may_read(self) -> bool:
        more = bool(self._came) or not self._at_end
        if not more or len(self.ready) >= MOST_READY:
            return False
        return self._around.clock() >= max(self._rests_until, self._reads_from)

    async def _find_again(self) -> None:
        if self.job.status not in (JobStatus.VALIDATING, *OVER) and self.job.output_file is None:
            found = await self._around.aside(lambda: self._around.store.progress(self.job))
            self._done, self._written = found.answered, found.written
            self._around.shelf.weigh(self.job.tenant, found.written)
            self._change(replace(self.job, completed=found.completed, failed=found.failed))

    async def _check(self) -> None:
        bounds, job = self._around.shelf.bounds, self.job
        check, splitter = Check(job, bounds.max_lines, bounds.max_line), Splitter(bounds.max_line)
        offset = 0
        while self.job.status is JobStatus.VALIDATING:
            piece = await self._piece(offset)
            began = self._around.clock()
            for number, text in splitter.feed(piece):
                check.look(number, text)
            offset += len(piece)
            if not piece or check.enough:
                check.finish(splitter.number)
                now = self._around.wall_clock()
                await self._save(job_states.checked(self.job, splitter.number, check.mistakes, now))
                return
            await asyncio.sleep(self._around.clock() - began)  # others have as much of the time as this

    async def _piece(self, offset: int) -> bytes:
        return await self._around.aside(lambda: self._around.store.read(self.job.input_file, offset, PIECE))

    async def _read_one(self) -> None:
        """Have the next line that has no answer read by its door."""
        found = await self._next_text()
        if found is None:
            return
        index, text = found
        line, name = read_line(text), line_name(self.job.id, index)
        around = self._around
        read = await around.lines.read(self.job.endpoint, bytes(line.body), self.job.identity, name)
        if not isinstance(read, Said):
            self.ready.append(Ready(index, line.custom_id, read))
            around.look()
        elif self._is_for_later(read):
            self._came.appendleft(found)
            self._reads_from = around.clock() + max(REST, read.retry_after or 0.0)
        else:
            self._note(index, line.custom_id, read)

    async def _next_text(self) -> tuple[int, bytes] | None:
        while not self._came and not self._at_end:
            piece = await self._piece(self._offset)
            self._offset += len(piece)
            self._at_end = not piece
            self._came.extend(each for each in self._splitter.feed(piece) if each[0] not in self._done)
        return self._came.popleft() if self._came else None

    # ---- answers -----------------------------------------------------------------------------------------

    def _take(self, line: Ready, said: Said) -> None:
        """Take the answer to a line that was in flight."""
        line.leaving = None
        if said.status == 504:
            line.tries += 1
        if self._is_for_later(said) or (said.status == 504 and line.tries < MOST_TRIES):
            self.ready.appendleft(line)
            self._rest(said.retry_after)
        else:
            self._note(line.index, line.custom_id, said)
        self._wake.set()

    def _is_for_later(self, said: Said) -> bool:
        """Whether a line was refused in a way that says nothing about the line."""
        if said.code == NotFound.code:
            return self._around.clock() - self._around.began < PATIENT
        return said.status in LATER or said.code in (Overloaded.code, OverQuota.code)

    def _rest(self, seconds: float | None) -> None:
        wait = min(LONGEST_REST, max(REST, seconds or 0.0))
        self._rests_until = max(self._rests_until, self._around.clock() + wait)

    def _note(self, index: int, custom_id: str, said: Said) -> None:
        name = line_name(self.job.id, index)
        self._unwritten.append(answered(name, index, custom_id, said))
        self._done.add(index)

    async def _write(self) -> None:
        """Write what there is. What could not be written is tried again later."""
        for good in (True, False):
            lines = [each for each in self._unwritten[:MOST_UNWRITTEN] if each.good is good]
            if not lines:
                continue
            texts = [each.line for each in lines]
            append = partial(self._around.store.append, self.job, texts, good=good)
            try:
                await self._around.aside(append)
            except OSError as error:
                log.error(
                    "the answers of a batch could not be written",
                    extra={"batch": self.job.id, "error": str(error)},
                )
                self._rest(LONGEST_REST / 10)
                await asyncio.sleep(REST)
                return
            written = {each.number for each in lines}
            self._unwritten = [each for each in self._unwritten if each.number not in written]
            size = sum(map(len, texts))
            self._written += size
            self._around.shelf.weigh(self.job.tenant, size)
            completed, failed = (len(lines), 0) if good else (0, len(lines))
            self._change(
                replace(self.job, completed=self.job.completed + completed, failed=self.job.failed + failed)
            )

    # ---- the end -----------------------------------------------------------------------------------------

    async def _write_rest(self) -> None:
        """Write that the lines that are left were not executed."""
        self.ready.clear()
        self._came.clear()
        splitter, offset, at_end = Splitter(self._around.shelf.bounds.max_line), 0, False
        while not at_end:
            piece = await self._piece(offset)
            offset, at_end = offset + len(piece), not piece
            for index, text in splitter.feed(piece):
                if index not in self._done:
                    name = line_name(self.job.id, index)
                    self._unwritten.append(not_executed(name, index, _custom_id(text)))
                    self._done.add(index)
            while self._unwritten:
                await self._write()

    async def _close(self) -> None:
        """Make files of what was written. Whatever was done of this before a restart is done again."""
        while self._unwritten:
            await self._write()
        around, job, now = self._around, self.job, int(self._around.wall_clock())
        if job.output_file is None or job.error_file is None:
            job = replace(
                job,
                output_file=f"file-{job.id.removeprefix('batch_')[:23]}0",
                error_file=f"file-{job.id.removeprefix('batch_')[:23]}1",
            )
            await self._save(job)
        made: dict[bool, StoredFile | None] = {}
        for good, name in ((True, job.output_file), (False, job.error_file)):
            assert name is not None
            kind = "output" if good else "errors"
            made[good] = await self._publish(
                StoredFile(
                    id=name, tenant=job.tenant, name=f"{job.id}_{kind}.jsonl", purpose=MADE, size=0,
                    created=now, expires=int(now + around.shelf.bounds.keep),
                ),
                good=good,
            )  # fmt: skip
        around.shelf.weigh(job.tenant, -self._written)  # from now on they count as files
        self._written = 0
        for file in made.values():
            if file is not None:
                around.shelf.put(file)
        output, errors = made[True], made[False]
        await self._save(
            job_states.closed(
                replace(
                    job,
                    output_file=None if output is None else output.id,
                    error_file=None if errors is None else errors.id,
                ),
                around.wall_clock(),
            )
        )

    async def _publish(self, file: StoredFile, *, good: bool) -> StoredFile | None:
        store, job = self._around.store, self.job
        size = await self._around.aside(lambda: store.publish(job, file, good=good))
        return None if size is None else replace(file, size=size)

    # ---- small things ------------------------------------------------------------------------------------

    async def _wait(self) -> None:
        """Wait until something happens: an answer, a cancellation, the end of a rest, the end of the job's time."""
        until = [self.job.expires - self._around.wall_clock()] if not self.in_flight else []
        now = self._around.clock()
        until += [rest - now for rest in (self._rests_until, self._reads_from) if rest > now]
        self._wake.clear()
        try:
            async with asyncio.timeout(max(0.01, min(until)) if until else None):
                await self._wake.wait()
        except TimeoutError:
            self._around.look()

    def _change(self, job: Job) -> None:
        self.job = job
        self._around.changed(job)

    async def _save(self, job: Job) -> None:
        """Show another state of the job once it is kept. It is left as it is if it was cancelled meanwhile."""
        async with self._saving:
            stays = (JobStatus.CANCELLING, *OVER)
            if self.job.status not in stays or job.status in stays:
                await self._around.aside(lambda: self._around.store.save(job))
                self._change(job)

    def _is_resting(self) -> bool:
        return self._around.clock() < self._rests_until

    def drop(self) -> list[Ready]:
        """Stop leading the job: whoever leads it next finds again what is written. Returns what was in
        flight."""
        self._around.shelf.weigh(self.job.tenant, -self._written)
        self._written = 0
        self.ready.clear()
        return self.leave()


def _custom_id(text: bytes) -> str:
    try:
        line: Line = read_line(text)
    except msgspec.MsgspecError:
        return ""
    return line.custom_id
