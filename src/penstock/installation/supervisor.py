"""Starts, watches and ends the processes of a whole installation on this machine, and its own store. `roles/up.py`
makes the `Installation`, and `cli/up.py` runs it. It reads what the parts print, and asks their admin planes.

When a part dies, the others are told at once, and it is started again. Parts end in the order in which requests
flow: gateways first, so that requests which they have accepted are still batched, run and answered; the store last.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

from aiohttp import ClientError, ClientSession

from penstock.core.backoff import backoff
from penstock.errors import StoreDown, UserMistake
from penstock.installation.fetched_figures import admin_session
from penstock.installation.own_store import OwnStore
from penstock.installation.plan import Part, UpPlan
from penstock.installation.processes import apart, cause, printed, send
from penstock.installation.store_memory import store_memory
from penstock.ports.scaling import LINE

log = logging.getLogger("penstock.up")

# Seconds: the first and the longest pause before a restart; a part that ran for STABLE begins with the first again.
FIRST_RESTART, LONGEST_RESTART, STABLE = 0.1, 5.0, 10.0
MISTAKE = 2  # the exit code of a process whose operator has to put something right
TOLD = "penstock: "  # begins the line in which a part says what its operator has to put right
LAST_WORDS = 0.5  # seconds to read what a part printed before it died
JOIN_LIMIT = 5.0  # seconds until gateways and batchers must have heard of the workers


# Tells gateways, batchers and workers that a process has died. Arguments: its kind and its process id. Returns the
# names under which it was registered. Raises StoreDown.
Tell = Callable[[str, int], Awaitable[Sequence[str]]]


class Installation:
    """All parts of one `penstock up`."""

    def __init__(self, plan: UpPlan, say: Callable[[str, str], None], telling: Callable[[str], Tell]) -> None:
        """`say`: called with a part's name and each line that it prints. `telling`: returns the function that tells
        of deaths over the Redis with this URL."""
        self._plan = plan
        self._say = say
        self._telling = telling
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        # By part, the line with which it says that it serves.
        self._banners: dict[str, asyncio.Future[str]] = {}
        # The tasks that each look after one part, by role, in the order in which the roles end.
        self._supervised: dict[str, list[asyncio.Task[None]]] = {
            "autoscaler": [], "gateway": [], "batcher": [], "worker": [],
        }  # fmt: skip
        self._wanted = plan.workers  # how many workers there should be
        self._leaving: set[str] = set()  # workers that are not wanted any more, and finish what they have
        self._late: set[str] = set()  # workers that were added after the start
        fsync = plan.config.redis.durability == "fsync"
        memory = store_memory(plan.config.redis.store_memory)
        self._store = None if plan.redis else OwnStore(say, memory, fsync=fsync)
        # If we are killed, a part drains if the store is not ours. Our own store ends in the same moment as we do,
        # so then a part cannot drain.
        self._farewell = signal.SIGTERM if plan.redis else signal.SIGKILL
        self._tellings: set[asyncio.Task[None]] = set()  # each tells of one death
        self._ending = asyncio.Event()  # set once the installation has begun to end
        self._mistake = ""  # what the operator has to put right, as the first part said it
        # Gets a UserMistake if a part of the start cannot run for a mistake of its operator.
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.redis = plan.redis or ""  # the URL; empty until a store of our own has started

    async def start(self) -> dict[str, str]:
        """Start all parts. Returns when each has printed that it serves, with that line of each."""
        if self._store is not None:
            await self._store.start()
            self.redis = self._store.url
        self._tell = self._telling(self.redis)
        for part in self._plan.parts(self.redis):
            self._add(part)
        awaited = dict(self._banners)
        everyone = asyncio.gather(*awaited.values())
        first: list[asyncio.Future[Any]] = [everyone, self.broken]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self.broken.done():
            everyone.cancel()
            await asyncio.gather(everyone, return_exceptions=True)
            self.broken.result()
        banners = dict(zip(awaited, await everyone, strict=True))
        await self._joined(
            [banner for name, banner in banners.items() if name.startswith(("gateway", "batcher"))]
        )
        return banners

    async def _joined(self, banners: Sequence[str]) -> None:
        """Wait until gateways and batchers have heard of the workers, so that the very first request is served. The
        wait is bounded, because an endpoint that the workers use may come up later."""
        try:
            token = self._plan.config.server.admin_token
            async with asyncio.timeout(JOIN_LIMIT), admin_session(token) as session:
                for banner in banners:
                    await _has_workers(session, banner.rpartition("admin ")[2])
        except TimeoutError:
            log.debug("no worker is healthy yet")

    def hang_up(self) -> None:
        """Let all parts read their settings again."""
        for name, process in self._processes.items():
            if name in self._banners and self._banners[name].done():  # one that is starting reads them anyway
                send(process, signal.SIGHUP)

    async def stop(self) -> None:
        """Stop role by role. Each part may take as long as it needs to drain."""
        self._ending.set()
        for role in self._supervised:
            for name, process in self._processes.items():
                if name.startswith(role):
                    send(process, signal.SIGTERM)
            await asyncio.gather(*self._supervised[role], *self._tellings, return_exceptions=True)
        if self._store is not None:
            await self._store.stop()

    async def kill(self) -> None:
        """End all parts at once, without a drain."""
        self._ending.set()
        for process in self._processes.values():
            send(process, signal.SIGKILL)
        for tasks in self._supervised.values():
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._tellings, return_exceptions=True)
        if self._store is not None:
            await self._store.stop()

    # ---- the number of workers -----------------------------------------------------------------------------

    def scale(self, wanted: int) -> None:
        """Let there be so many workers. Those that are not wanted any more finish the batch in hand."""
        if self._ending.is_set():
            return
        self._wanted = wanted
        workers = [name for name in self._banners if name.startswith("worker")]
        staying = [name for name in workers if name not in self._leaving]
        # Those that are not ready yet leave first, and of the others the latest.
        staying.sort(key=self._is_ready, reverse=True)
        for name in staying[wanted:]:
            self._leaving.add(name)
            if name in self._processes:
                send(self._processes[name], signal.SIGTERM)
        possible = map(self._worker, range(self._plan.most_workers))
        free = [part for part in possible if part.name not in workers]
        for part in free[: max(0, wanted - len(staying))]:
            self._late.add(part.name)
            self._add(part)

    def _worker(self, number: int) -> Part:
        return self._plan.worker(number, self.redis)

    def _is_ready(self, name: str) -> bool:
        return self._banners[name].done()

    def _add(self, part: Part) -> None:
        self._banners[part.name] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._supervise(part), name=part.name)
        self._supervised[part.role].append(task)

    def _gone(self, part: Part) -> None:
        """Forget a worker that has left. If a worker more is wanted again, it is started under the name that is now
        free."""
        self._leaving.discard(part.name)
        self._late.discard(part.name)
        self._processes.pop(part.name, None)
        banner = self._banners.pop(part.name)
        if not banner.done():
            banner.set_result("")
        me = asyncio.current_task()
        self._supervised[part.role] = [task for task in self._supervised[part.role] if task is not me]
        self.scale(self._wanted)

    # ---- parts -------------------------------------------------------------------------------------------

    async def _supervise(self, part: Part) -> None:
        """Run a part, and start it again whenever it ends, until it is not wanted any more."""
        failures = 0
        loop = asyncio.get_running_loop()
        while not self._ending.is_set() and part.name not in self._leaving:
            began = loop.time()
            code = await self._run(part)
            if part.name in self._leaving:
                break
            # If the part has said what its operator has to do, starting it again would not help.
            if code == MISTAKE and part.name not in self._late:
                if not self.broken.done():
                    self.broken.set_exception(UserMistake(self._mistake))
                return
            if self._ending.is_set():
                return
            failures = 1 if loop.time() - began > STABLE else failures + 1
            wait = backoff(failures, FIRST_RESTART, LONGEST_RESTART, len(part.name))
            self._say(part.name, f"ended with {cause(code)}; started again in {wait:.1f} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._ending.wait()
        if part.name in self._leaving:
            self._gone(part)

    async def _run(self, part: Part) -> int:
        """Run a part until it ends. Returns its exit code."""
        # An autoscaler that is started again begins with the number of workers that there is by now.
        present = ["--present", str(self._wanted)] if part.role == "autoscaler" else []
        process = await asyncio.create_subprocess_exec(
            *part.command,
            *present,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self._plan.environment},
            preexec_fn=apart(self._farewell),
        )
        self._processes[part.name] = process
        if self._ending.is_set() or part.name in self._leaving:
            send(process, signal.SIGTERM)
        reading = asyncio.create_task(self._read(part, process))
        try:
            code = await process.wait()
            if code:
                telling = asyncio.create_task(self._tell_of_death(part.role, process.pid))
                self._tellings.add(telling)
                telling.add_done_callback(self._tellings.discard)
            # The part's last words are here already. A process that it started may hold the pipe open for a while
            # longer.
            await asyncio.wait([reading], timeout=LAST_WORDS)
        finally:
            reading.cancel()
        return code

    async def _read(self, part: Part, process: asyncio.subprocess.Process) -> None:
        async for line in printed(process):
            banner = self._banners[part.name]
            if "admin http" in line and not banner.done():
                banner.set_result(line.strip())
            elif part.role == "autoscaler" and line.startswith(LINE):
                self.scale(int(line.removeprefix(LINE)))
            elif line.startswith(TOLD):
                # All parts make the same mistake: it is told once.
                self._mistake = self._mistake or line.removeprefix(TOLD)
                if part.name in self._late:
                    self._say(part.name, line)
            elif line.strip():
                self._say(part.name, line)

    async def _tell_of_death(self, role: str, pid: int) -> None:
        """Tell the others of a death, so that they take over its work now, and not only when its lease has
        ended."""
        try:
            names = await self._tell(f"{role}s", pid)
            log.debug("the others were told of a death", extra={"names": names})
        except StoreDown as error:
            log.debug("a death could not be told", extra={"error": error.message})


async def _has_workers(session: ClientSession, health: str) -> None:
    """Wait until a gateway or batcher has a healthy worker for each model. `health`: a URL on its admin plane."""
    while True:
        try:
            async with session.get(health) as answer:
                models = (await answer.json())["models"].values() if answer.ok else ()
            if models and all(model["workers_healthy"] for model in models):
                return
        except (ClientError, TimeoutError) as error:  # the part has just died, and is started again
            log.debug("a part does not answer", extra={"error": str(error)})
        await asyncio.sleep(0.05)
