"""An installation for the benchmark `faults` to hurt: its processes, how to kill them, and which requests a kill
cut short.

With a supervisor (`penstock up`), that starts the dead again; without one, this module does.
"""

import contextlib
import json
import os
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks import journalled
from benchmarks.serving import DIRECT, PENSTOCK, Launched, launched
from benchmarks.valkey import valkey

TARGET = f"{Path(journalled.__file__)}:run"
READY_SECONDS = 60.0
NOTICED = 1.5  # seconds for which a dead process stays dead if there is no supervisor


@dataclass(slots=True)
class Part:
    """One process that may be killed. It has the same admin port in every life."""

    role: str
    admin_port: int
    pid: Callable[[], int]
    restart: Callable[[], None]

    @property
    def admin(self) -> str:
        return f"http://127.0.0.1:{self.admin_port}"

    def kill(self) -> list[int]:
        """Kills the process at once; returns the pids of the user's code that went with it."""
        pid = self.pid()
        children = [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
        os.kill(pid, signal.SIGKILL)
        return children


@dataclass(slots=True)
class Scene:
    url: str
    journal: Path
    parts: list[Part] = field(default_factory=list)
    store: int = 0  # the pid of Valkey; 0 if it must not be stopped

    def of(self, role: str) -> list[Part]:
        return [part for part in self.parts if part.role == role]

    def cut_short(self, pids: Sequence[int]) -> set[str]:
        """The inputs that these processes began and never finished."""
        begun: dict[int, list[str]] = {}
        for line in self.journal.read_text().splitlines():
            event, pid, inputs = json.loads(line)
            if event == "begin":
                begun[pid] = inputs
            else:
                begun.pop(pid, None)
        return {text for pid in pids for text in begun.get(pid, ())}

    def wait_until_whole(self) -> None:
        """Waits until every part is ready, and every batcher and gateway knows all workers."""
        workers = len(self.of("worker"))
        ends = time.monotonic() + READY_SECONDS
        while not all(_whole(part, workers) for part in self.parts):
            if time.monotonic() > ends:
                raise RuntimeError(f"not whole again within {READY_SECONDS:g} s")
            time.sleep(0.1)


def _whole(part: Part, workers: int) -> bool:
    try:
        with DIRECT.open(f"{part.admin}/readyz", timeout=5):
            pass
        if part.role == "worker":
            return True
        with DIRECT.open(f"{part.admin}/internal/health", timeout=5) as answer:
            said = json.load(answer)
    except OSError:
        return False
    models = said["models"].values()
    known = bool(models) and all(model["workers_healthy"] == workers for model in models)
    return known and bool(said.get("shards", True))


@contextmanager
def supervised(batchers: int, workers: int) -> Iterator[Scene]:
    """`penstock up`, as a user types it."""
    first = _free_ports(3 + batchers + workers)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        journal = Path(folder) / "journal"
        journal.touch()
        command = [
            *PENSTOCK, "up", TARGET, "--batchers", str(batchers), "-w", str(workers), "--port", str(first),
            "--admin-port", str(first + 1), "--log-level", "warning",
        ]  # fmt: skip
        with launched(command, {"BENCH_JOURNAL": str(journal)}) as process:
            scene = Scene(f"http://127.0.0.1:{first}", journal)
            roles = ["gateway", *["batcher"] * batchers, *["worker"] * workers]
            for number, role in enumerate(roles):
                port = first + 1 + number
                scene.parts.append(Part(role, port, _child(process.pid, port), lambda: None))
            process.server()
            scene.wait_until_whole()
            yield scene
            process.still_there()


@contextmanager
def separate(batchers: int, workers: int) -> Iterator[Scene]:
    """Each role started by itself, with nobody to look after it."""
    first = _free_ports(2 + batchers + workers)
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder, ExitStack() as held:
        journal = Path(folder) / "journal"
        journal.touch()
        store = held.enter_context(valkey())
        scene = Scene(f"http://127.0.0.1:{first}", journal, store=store.pid)
        commands = [
            ["gateway", "--port", str(first)],
            *[["batcher"]] * batchers,
            *[["worker", TARGET]] * workers,
        ]
        for number, command in enumerate(commands):
            port = first + 1 + number
            words = [
                *PENSTOCK, *command, "--redis", store.url, "--admin-port", str(port), "--log-level", "warning",
            ]  # fmt: skip
            life = _Life(words, journal, held)
            scene.parts.append(Part(command[0], port, life.pid, life.begin))
        for part in scene.parts:
            part.restart()
        scene.wait_until_whole()
        yield scene


class _Life:
    """The lives of one part, one after the other."""

    def __init__(self, command: Sequence[str], journal: Path, held: ExitStack) -> None:
        self._command, self._journal, self._held = command, journal, held
        self._now: Launched | None = None

    def pid(self) -> int:
        assert self._now is not None
        return self._now.pid

    def begin(self) -> None:
        self._now = self._held.enter_context(launched(self._command, {"BENCH_JOURNAL": str(self._journal)}))


def _child(supervisor: int, port: int) -> Callable[[], int]:
    """The process of that admin port now, among the children of `penstock up`."""

    def pid() -> int:
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        for child in children:
            with contextlib.suppress(OSError):
                if str(port) in Path(f"/proc/{child}/cmdline").read_text().split("\0"):
                    return int(child)
        raise RuntimeError(f"no process serves the admin port {port}")

    return pid


def _free_ports(many: int) -> int:
    """The first of so many ports in a row that were free a moment ago."""
    while True:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            first = int(probe.getsockname()[1])
        if first + many < 65_536 and all(_is_free(port) for port in range(first, first + many)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
