"""The backend for a user's function: it runs in a process of its own, and is never imported here. A worker's slot
owns one and hands it batches; `roles/backends.py` makes it.

`spawned.py` holds that process, and `child.py` is the program that runs in it.
"""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from typing import Literal

from penstock.adapters.backends.frames import (
    BEAT_EVERY,
    Broken,
    Done,
    Look,
    Ready,
    Rejected,
    Seen,
    Setup,
    Work,
)
from penstock.adapters.backends.getting_ready import getting_ready
from penstock.adapters.backends.spawned import Spawned
from penstock.errors import (
    BackendCrashed,
    BackendError,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
)
from penstock.types import Batch, Failure, Result

log = logging.getLogger("penstock.worker")

Kind = Literal["auto", "text", "json"]

SILENCE = 3.0  # seconds without a heartbeat, after which a process counts as frozen
# Seconds. If an answer was read later than this, the delay does not count as the function's time.
BUSY = 0.002
LOOK_LIMIT = 1.5  # seconds in which an idle process must answer how full it is
CLOSE_LIMIT = 5.0  # seconds that the user's `close` may take


class StartFailed(BackendUnavailable):
    """The function did not get ready. `details` is the traceback, where there is one."""


class ProcessBackend:
    """Implements `ports.Backend`: runs batches through one function in one child process, one batch at a time. The
    next batch may be sent while one runs.

    `warms_up`: whether the user's `warmup` is called, which makes inputs to warm up with. The slot runs them.
    """

    runs_ahead = True

    def __init__(
        self,
        target: str,
        *,
        input_kind: Kind = "auto",
        output_kind: Kind = "auto",
        per_item: bool = False,
        environment: Mapping[str, str] | None = None,
        warms_up: bool = False,
        start_timeout: float = 120.0,
        memory_limit: int | None = None,
        name: str = "",
    ) -> None:
        self.name = name or target
        self._setup = Setup(0, target, input_kind, output_kind, memory_limit, per_item, warms_up)
        self._environment = dict(environment or {})
        self._start_timeout = start_timeout
        self._child: Spawned | None = None
        self._asked = 0  # the number of the last question
        self._closes = False  # whether the user's `close` is still to be called
        self.function = ""  # the function's name; empty until it has started once
        self.parameter_names: Sequence[str] | None = None  # None: any, or not started yet
        self.warm_up_inputs: Sequence[bytes] = ()  # made by the user's `warmup`, at the start

    @property
    def is_known(self) -> bool:
        """Whether the function has started once, so that its parameters are known."""
        return bool(self.function)

    @property
    def takes_bytes(self) -> bool:
        return self._setup.input_kind != "text"

    @property
    def takes_parameters(self) -> bool:
        return self.parameter_names is None or len(self.parameter_names) > 0

    @property
    def pid(self) -> int | None:
        """The process of the function; None if it does not run."""
        return self._child.pid if self._child else None

    async def start(self) -> None:
        await self.close()
        too_late = StartFailed(
            f"{self._setup.target} was not ready within the {self._start_timeout:g} s that start_timeout"
            " allows; if it loads something large, raise it"
        )
        async with getting_ready(self, self._start_timeout, too_late):
            await self._start()

    async def _start(self) -> None:
        try:
            child = self._child = Spawned(self.name, self._environment)
            await child.connect()
        except OSError as error:
            raise StartFailed(f"cannot start a process for {self._setup.target}: {error}") from None
        try:
            answer = await child.ask(self._setup)
            if isinstance(answer, Broken):
                raise StartFailed(answer.message, details=answer.details)
            if not isinstance(answer, Ready):
                raise BackendCrashed(f"{self.name} answered out of turn")
            self.function, self.parameter_names = answer.function, answer.parameters
            self._closes, child.pid = answer.closes, answer.pid
            self.warm_up_inputs = answer.warm_up
        except BackendCrashed as error:
            raise StartFailed(f"{self._setup.target} did not start: {error.message}") from None

    async def run(self, batch: Batch) -> Result:
        if self._child is None:
            raise BackendUnavailable(f"{self.name} is not running")
        inputs = [request.input for request in batch.requests]
        done = await self._run(self._child, batch.parameters, inputs)
        # A busy server (five hundred clients may come at once) reads an answer late. If that delay counted as the
        # function's time, the server would refuse requests that the function could well do.
        lay = time.monotonic() - done.at
        result = Result(done.outputs, pressure=done.pressure, held_up=lay if lay > BUSY else 0.0)
        if done.failed:
            result.failures = self._failures(batch, done)
        return result

    def _failures(self, batch: Batch, done: Done) -> dict[int, Failure]:
        log.warning(
            "outputs failed",
            extra={
                "worker": self.name, "batch": batch.id, "size": batch.size, "failed": len(done.failed),
                "error": done.failed[0][1],
            },
        )  # fmt: skip
        return {
            position: Failure(BatchRejected.code, message, details)
            for position, message, details in done.failed
        }

    async def _run(self, child: Spawned, parameters: bytes, inputs: list[bytes]) -> Done:
        self._asked += 1
        answer = await child.ask(Work(self._asked, parameters, inputs))
        if isinstance(answer, Rejected):
            if answer.logged:
                log.error(
                    "the function raised an exception",
                    extra={"worker": self.name, "error": answer.logged, "traceback": answer.trace},
                )
            raise _kind(answer)(answer.message, details=answer.details)
        if not isinstance(answer, Done):
            raise BackendCrashed(f"{self.name} answered out of turn")
        if len(answer.outputs) != len(inputs):
            raise BatchRejected(
                f"{self.function} gave {len(answer.outputs)} outputs for {len(inputs)} inputs"
            )
        return answer

    async def probe(self) -> float:
        child = self._child
        if child is None:
            raise BackendUnavailable(f"{self.name} is not running")
        if child.ended is not None:
            raise BackendUnavailable(child.ended)
        if child.silence > SILENCE:
            # The server itself may have been stopped for a while, so that heartbeats wait to be read.
            try:
                async with asyncio.timeout(2 * BEAT_EVERY):
                    await child.next_beat()
            except TimeoutError:
                raise BackendUnavailable(
                    f"{self.name} is frozen: not heard of for {child.silence:.0f} s"
                ) from None
        return await self._look(child)

    async def _look(self, child: Spawned) -> float:
        self._asked += 1
        try:
            async with asyncio.timeout(LOOK_LIMIT):
                answer = await child.ask(Look(self._asked))
        except TimeoutError:
            raise BackendUnavailable(
                f"{self.name} is frozen: it did not say how it is within {LOOK_LIMIT:g} s"
            ) from None
        if not isinstance(answer, Seen):
            raise BackendCrashed(f"{self.name} answered out of turn")
        return answer.pressure

    async def close(self) -> None:
        child, self._child = self._child, None
        if child is None:
            return
        try:
            if self._closes:
                self._closes = False
                await child.leave(CLOSE_LIMIT)
        finally:
            await child.kill_and_reap()


def _kind(rejected: Rejected) -> type[BackendError]:
    if rejected.spent:
        return BackendCrashed
    return BackendOutOfMemory if rejected.too_large else BatchRejected
