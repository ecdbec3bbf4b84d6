"""`penstock up` and single roles for tests: real processes on free ports, none of which is left behind."""

import os
import re
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psutil

from own_ports import free_ports
from server import CHANGING, PENSTOCK, Answer, call, eventually

ADMIN = re.compile(r"admin (http://\S+)/internal/health")


@dataclass
class Started:
    """A process that serves; what it says is kept."""

    process: "subprocess.Popen[str]"
    lines: list[str] = field(default_factory=list)
    readers: list[threading.Thread] = field(default_factory=list)
    _children: dict[int, psutil.Process] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for stream in (self.process.stdout, self.process.stderr):
            reader = threading.Thread(target=self._read, args=(stream,))
            reader.start()
            self.readers.append(reader)

    def _read(self, stream: Any) -> None:
        self.lines.extend(line.rstrip("\n") for line in stream)

    def says(self, text: str) -> str:
        """The first line with this in it, once it is there."""

        def found() -> bool:
            over = not any(reader.is_alive() for reader in self.readers)  # all that it said has been read
            told = any(text in line for line in self.lines)
            assert told or not over, self.lines
            return told

        eventually(found)
        return next(line for line in self.lines if text in line)

    def family(self) -> list[psutil.Process]:
        """Everything it has started so far that may still live."""
        for child in psutil.Process(self.process.pid).children(recursive=True):
            self._children.setdefault(child.pid, child)
        return list(self._children.values())

    def end(self, kind: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(kind)
        return self.process.wait(60)

    @property
    def admin(self) -> str:
        """The address of a single role's admin plane."""
        found = ADMIN.search(self.says("admin http://"))
        assert found
        return found[1]


@dataclass
class Up(Started):
    """A whole installation; its parts by the name that `up` gives them."""

    ports: dict[str, str] = field(default_factory=dict)
    admins: dict[str, str] = field(default_factory=dict)

    def part(self, name: str) -> psutil.Process:
        """The process of a part, found by the admin port on its command line. One that was killed is waited for:
        its successor has the same port."""
        port = self.admins[name].rpartition(":")[2]
        found: list[psutil.Process] = []

        def there() -> bool:
            found[:] = [child for child in psutil.Process(self.process.pid).children() if has(child, port)]
            return bool(found)

        eventually(there)
        return found[0]

    def ask(self, gateway: str, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return call(self.ports[gateway], method, path, body, {"content-type": "application/json", **named})

    def knows(self, name: str, workers: int) -> bool:
        """Whether a part has heard of so many; on a slow machine that is later than `up` waits for."""
        models = self.admin_of(name, "/internal/health").json()["models"].values()
        return bool(models) and all(model["workers_healthy"] == workers for model in models)

    def admin_of(self, name: str, path: str, method: str = "GET") -> Answer:
        return call(self.admins[name], method, path, headers=CHANGING)


def has(child: psutil.Process, port: str) -> bool:
    """Whether this process lives and has the port on its command line."""
    try:
        return port in child.cmdline()[-2:]
    except psutil.NoSuchProcess:  # it has ended; a zombie counts as that too
        return False


S = TypeVar("S", bound=Started)


@contextmanager
def started(kind: type[S], *words: str, directory: Path) -> Iterator[S]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with subprocess.Popen(
        [str(PENSTOCK), *words], cwd=directory, env={**inherited, "PYTHONUNBUFFERED": "1"},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        running = kind(process)
        try:
            yield running
        finally:
            if process.poll() is None:
                for child in running.family():
                    with _if_there():
                        child.kill()
                process.kill()
            for reader in running.readers:
                reader.join(60)


@contextmanager
def _if_there() -> Iterator[None]:
    try:
        yield
    except psutil.NoSuchProcess:
        pass


@contextmanager
def up(
    target: str | None,
    *options: str,
    gateways: int = 1,
    batchers: int = 1,
    workers: int = 1,
    more_ports: int = 0,
) -> Iterator[Up]:
    """Started: from now on it serves. `more_ports`: for workers that come later, and an autoscaler."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder, ExitStack() as stack:
        parts = [
            f"{role}-{number + 1}"
            for role, many in (("gateway", gateways), ("batcher", batchers), ("worker", workers))
            for number in range(many)
        ]
        first = free_ports(gateways + len(parts) + more_ports)
        running = stack.enter_context(
            started(
                Up, "up", *([target] if target else []),
                "-g", str(gateways), "--batchers", str(batchers), "-w", str(workers),
                "--port", str(first), "--admin-port", str(first + gateways), *options, directory=Path(folder),
            )
        )  # fmt: skip
        address = "http://127.0.0.1"
        running.ports = {f"gateway-{n + 1}": f"{address}:{first + n}" for n in range(gateways)}
        running.admins = {name: f"{address}:{first + gateways + n}" for n, name in enumerate(parts)}
        running.says("try it:")
        eventually(lambda: all(running.knows(name, workers) for name in parts if "worker" not in name))
        running.family()
        yield running
