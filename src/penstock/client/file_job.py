"""`penstock map`: the lines of a file go to the server, and the answers into another file. `cli/map.py` runs a
`FileMap`, which reads and writes the files and locks the outputs.

Outputs are written as they come, or in order, and reach the disk within half a second. Failures go into a file of
their own, which is written anew by each run. A run that is started again sends the lines that have no output yet,
those that failed included.
"""

import asyncio
import fcntl
import os
import sys
import time
from array import array
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from penstock.client.asking import Asking
from penstock.client.async_client import AsyncClient
from penstock.client.course import Done, NotDone
from penstock.client.errors import InferenceError
from penstock.client.json_lines import (
    DoneBefore,
    Form,
    Line,
    Unfinished,
    Written,
    count_lines,
    in_hex,
    read_done,
)
from penstock.client.standard_input import StandardInput
from penstock.errors import UserMistake

STDIN = "-"
FLUSH = 0.5  # seconds that an output may wait to be written


@dataclass(frozen=True, slots=True)
class Job:
    """What one run has to do."""

    inputs: str  # a file, or - for standard input
    outputs: Path
    form: Form
    concurrency: int = 256
    ordered: bool = False
    restart: bool = False  # whether what an earlier run has written is thrown away
    timeout: float | None = None
    patience: float = 300.0
    parameters: dict[str, Any] | None = None
    progress: bool | None = None

    @property
    def failures(self) -> Path:
        """The file for lines that fail, beside the outputs."""
        return self.outputs.with_name(f"{self.outputs.stem}.failed{self.outputs.suffix}")


@dataclass(slots=True)
class Tally:
    """What came of one run."""

    before: int = 0  # lines that an earlier run had done
    done: int = 0
    failed: Counter[str] = field(default_factory=Counter)
    first_messages: dict[str, str] = field(default_factory=dict)  # by code
    latencies: "array[float]" = field(default_factory=lambda: array("d"))  # seconds
    batched: int = 0  # the sum of the batch sizes
    tokens: int = 0
    retried: int = 0
    seconds: float = 0.0
    stopped: bool = False


class FileMap:
    """One run of a job."""

    def __init__(self, job: Job, client: AsyncClient) -> None:
        self._job, self._client = job, client
        self.tally = Tally()
        self._stopping = False  # whether no more lines are sent
        self._run: asyncio.Task[None] | None = None
        self._standard_input: StandardInput | None = None

    def stop(self) -> None:
        """Lets no more lines out; called again, it gives up what is under way."""
        if self._stopping and self._run is not None:
            self._run.cancel()
        self._stopping = self.tally.stopped = True
        if self._standard_input is not None:
            self._standard_input.stop()

    async def run(self) -> Tally:
        """Does the whole job, and returns what came of it. Raises UserMistake."""
        self._run = asyncio.current_task()
        began = time.monotonic()
        try:
            await self._copy()
        except asyncio.CancelledError:
            if not self._stopping:
                raise
        self.tally.seconds = time.monotonic() - began
        return self.tally

    async def _copy(self) -> None:
        job, tally = self._job, self.tally
        with ExitStack() as files:
            source = files.enter_context(_opened(job.inputs))
            for path, what in ((job.outputs, "outputs"), (job.failures, "failures")):
                _refuse_if_same(source, path, what)
            outputs = files.enter_context(_locked(job.outputs))
            done, whole = (DoneBefore(), 0) if job.restart else read_done(job.outputs)
            outputs.truncate(whole)
            outputs.seek(whole)
            tally.before = done.count
            failures = files.enter_context(job.failures.open("wb"))
            lines = Unfinished(job.form, done, job.inputs)
            total = None if job.inputs == STDIN else max(0, count_lines(Path(job.inputs)) - done.count)
            sheet = _Sheet(outputs, failures, tally)
            files.callback(sheet.flush)
            mapped = self._client.map_asks(
                self._lines(source, lines, sheet)
                if job.inputs != STDIN
                else self._lines_that_come(self._listening(source, files), lines, sheet),
                self._ask,
                concurrency=job.concurrency,
                ordered=job.ordered,
                progress=job.progress,
                total=total,
                timeout=job.timeout,
                patience=job.patience,
                on_failure=sheet.write_failure,
            )
            flushing = asyncio.create_task(sheet.keep_flushed())
            try:
                async with mapped:
                    async for each in mapped:
                        sheet.write(each)
            finally:
                flushing.cancel()
                tally.retried = mapped.retried
        if not tally.failed:
            job.failures.unlink(missing_ok=True)

    def _listening(self, source: BinaryIO, files: ExitStack) -> StandardInput:
        self._standard_input = StandardInput(source.fileno())
        files.callback(self._standard_input.stop)
        return self._standard_input

    def _lines(self, source: BinaryIO, lines: Unfinished, sheet: "_Sheet") -> Iterator[Line]:
        for text in source:
            if self._stopping:
                return
            line = sheet.sendable(lines.next(text))
            if line is not None:
                yield line

    async def _lines_that_come(
        self, source: StandardInput, lines: Unfinished, sheet: "_Sheet"
    ) -> AsyncIterator[Line]:
        try:
            async for text in source.lines():
                line = sheet.sendable(lines.next(text))
                if line is not None:
                    yield line
        except OSError as error:
            raise _unreadable(self._job.inputs, error) from None

    def _ask(self, line: Line) -> Asking[msgspec.Raw]:
        return self._client.ask(line.input, line.model, line.parameters or self._job.parameters, msgspec.Raw)


class _Sheet:
    """Writes both files, outputs and failures, and keeps the tally."""

    def __init__(self, outputs: BinaryIO, failures: BinaryIO, tally: Tally) -> None:
        self._outputs, self._failures, self._tally = outputs, failures, tally
        self._encode = msgspec.json.Encoder().encode

    def write(self, done: Done[Line, msgspec.Raw]) -> None:
        line, answer, tally = done.input, done.answer, self._tally
        written = Written(line.number, in_hex(line.digest), answer.output, line.id)
        self._outputs.write(self._encode(written) + b"\n")
        tally.done += 1
        tally.latencies.append(done.seconds)
        tally.batched += answer.metadata.batch_size
        tally.tokens += answer.metadata.tokens_used or 0

    def write_failure(self, failure: NotDone[Line]) -> None:
        self._fail(failure.input, failure.error)

    def sendable(self, line: Line | None) -> Line | None:
        """Returns the line if it can be sent, and writes the mistake that is in it."""
        if line is None or not line.mistake:
            return line
        self._fail(line, InferenceError(line.mistake, code="BAD_LINE"))
        return None

    def flush(self) -> None:
        self._outputs.flush()
        self._failures.flush()

    async def keep_flushed(self) -> None:
        """Flushes both files until it is cancelled. A run that is killed loses no more than FLUSH seconds of
        answers."""
        while True:
            await asyncio.sleep(FLUSH)
            self.flush()

    def _fail(self, line: Line, error: InferenceError) -> None:
        code = error.code or f"HTTP_{error.status}"
        said: dict[str, Any] = {"line": line.number}
        if line.id is not msgspec.UNSET:
            said["id"] = line.id
        said |= {"error": code, "message": error.message, "request_id": error.request_id}
        self._failures.write(self._encode(said) + b"\n")
        self._tally.failed[code] += 1
        self._tally.first_messages.setdefault(code, f"line {line.number}: {error.message}")


def _opened(inputs: str) -> BinaryIO:
    try:
        # Standard input is copied, because it must not be closed with the files.
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb") if inputs == STDIN else Path(inputs).open("rb")
    except OSError as error:
        raise _unreadable(inputs, error) from None


def _unreadable(inputs: str, error: OSError) -> UserMistake:
    return UserMistake(f"cannot read {inputs}: {error.strerror}")


def _refuse_if_same(source: BinaryIO, path: Path, what: str) -> None:
    """Raises UserMistake if the inputs come from a file that would be written over, whatever they are called."""
    if path.exists() and os.path.samestat(os.fstat(source.fileno()), path.stat()):
        raise UserMistake(
            f"{path} is the file of the inputs, and the {what} would be written over it: name other outputs, or"
            " give the inputs another name. To try again what has failed, name the first inputs once more"
        )


def _locked(path: Path) -> BinaryIO:
    """Opens the outputs for this run alone."""
    try:
        file = path.open("r+b" if path.exists() else "w+b")
    except OSError as error:
        raise UserMistake(f"cannot write {path}: {error.strerror}") from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise UserMistake(f"another `penstock map` is writing {path}") from None
    return file
