"""A real `penstock serve` for tests: its own process, free ports, stopped with SIGTERM and checked for exit code 0.

with running("sim:10ms", "--workers", "2", config="[limits]\\nmax_body = '1KB'") as server:
    answer = server.post("/v1/inference", {"input": "hello"})
    assert answer.status == 200 and answer.json()["output"] == "hello"
"""

import json
import os
import re
import signal
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

PENSTOCK = Path(sys.executable).with_name("penstock")
HUNG = 60.0  # seconds after which what should have happened has not: the bound of a failure, and no promise

# For servers whose own limits are not what is tested: a machine that stalls for a few seconds changes no answer.
PATIENT = """
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""

CHANGING = {"x-penstock": "1"}  # needed by all that changes something by way of the admin plane
HELD = """
import os, time
def batch(inputs):
    while not os.path.exists("open"):
        time.sleep(0.01)
    return inputs
"""
BANNER = re.compile(r"serving\s+(https?://\S+)/v1/inference\s.*admin\s+(https?://\S+)/internal/health")


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Message  # names in any case; get_all() for repeated ones
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Server:
    process: "subprocess.Popen[str]"
    directory: Path  # its working directory, gone when the test is over
    url: str = ""
    admin_url: str = ""
    banner: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None  # what to connect with where its URL is https://

    @property
    def address(self) -> tuple[str, int]:
        """Of the data plane, for raw sockets."""
        parts = urlsplit(self.url)
        assert parts.hostname is not None
        assert parts.port is not None
        return parts.hostname, parts.port

    def stderr(self) -> str:
        """Everything it has logged so far."""
        return (self.directory / "stderr").read_text()

    def log_lines(self) -> list[str]:
        """The same; a line that it is still writing is left out."""
        return self.stderr().rpartition("\n")[0].splitlines()

    def post(
        self, path: str, body: object, headers: Mapping[str, str] | None = None, *, timeout: float = HUNG
    ) -> Answer:
        """POST as JSON, or as it is where the body is bytes already."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.call("POST", path, data, {"content-type": "application/json", **(headers or {})}, timeout)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answer:
        return self.call("GET", path, None, headers)

    def call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout: float = HUNG,
    ) -> Answer:
        return call(self.url, method, path, body, headers, timeout, self.tls)

    def admin(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Answer:
        """A change has the header that it needs, unless others are given."""
        given = CHANGING if headers is None and method != "GET" else headers
        return call(self.admin_url, method, path, headers=given, tls=self.tls)

    def health(self) -> dict[str, Any]:
        said: dict[str, Any] = self.admin("/internal/health").json()
        return said

    def metric(self, name: str, **labels: str) -> float:
        """One sample of /metrics, by its full name; 0 where there is none yet."""
        from prometheus_client.parser import text_string_to_metric_families

        text = self.admin("/metrics").body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return float(sample.value)
        return 0.0

    def open(self) -> None:
        """From now on a model that is held answers."""
        (self.directory / "open").touch()

    def shut(self) -> None:
        (self.directory / "open").unlink()

    def stop(self) -> int:
        """SIGTERM; its exit code once it is gone."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(HUNG)


def call(
    url: str,
    method: str,
    path: str,
    body: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    timeout: float = HUNG,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """One request on a connection of its own."""
    parts = urlsplit(url)
    connection: HTTPConnection
    if parts.scheme == "https":
        connection = HTTPSConnection(parts.netloc, timeout=timeout, context=tls)
    else:
        connection = HTTPConnection(parts.netloc, timeout=timeout)
    try:
        connection.request(method, path, body, dict(headers or {}))
        response = connection.getresponse()
        return Answer(response.status, response.headers, response.read())
    finally:
        connection.close()


def held(folder: Path) -> str:
    """The target of a model that answers when the test says so, and not after some time; its server is PATIENT."""
    file = folder / "held.py"
    file.write_text(HELD)
    return f"{file}:batch"


def eventually(holds: Callable[[], bool], seconds: float = HUNG) -> None:
    """Until it holds; for what another process does in its own time and does not announce."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.01)


@contextmanager
def running(
    target: str | None = None,
    *options: str,
    config: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[Server]:
    """Serve until the block ends, then SIGTERM. `config` is the text of its penstock.toml."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as folder:
        directory = Path(folder)
        if config is not None:
            (directory / "penstock.toml").write_text(config)
        command = [str(PENSTOCK), "serve", *([target] if target else []), "--port", "0", "--admin-port", "0"]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
        with (
            (directory / "stderr").open("wb") as log,
            subprocess.Popen(
                [*command, *options],
                cwd=directory,
                env={**variables, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            ) as process,
        ):
            server = Server(process, directory)
            try:
                _read_banner(server)
                yield server
                if process.poll() is None:
                    assert server.stop() == 0, server.stderr()
            finally:
                if process.poll() is None:
                    process.kill()


def _read_banner(server: Server) -> None:
    assert server.process.stdout is not None
    for line in server.process.stdout:
        server.banner.append(line.rstrip("\n"))
        if found := BANNER.search(line):
            server.url, server.admin_url = found.groups()
        if line.lstrip().startswith("try it:"):
            return
    code = server.process.wait()
    raise AssertionError(f"it ended with code {code} before it served:\n{server.stderr()}")
