"""A real receiver of traces for tests: Datadog's test agent, which takes OTLP over HTTP and gives back what it got.

Its packages clash with ours, so it has an environment of its own inside ours, made once from a lock with hashes.
"""

import base64
import fcntl
import hashlib
import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from own_ports import free_ports
from server import eventually

LOCK = Path(__file__).parent / "tracing" / "receiver.lock"
HOME = Path(sys.prefix) / "trace-receiver"


@dataclass(frozen=True)
class Seen:
    """A span as a receiver has it. Ids are in hex."""

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    start: int
    end: int
    failed: bool
    state: str
    service: str
    instance: str
    attributes: Mapping[str, object] = field(repr=False)
    links: tuple[tuple[str, str], ...] = field(repr=False)  # trace and span

    @property
    def context(self) -> tuple[str, str]:
        return self.trace, self.id


@dataclass
class TraceReceiver:
    url: str

    def spans(self, trace: str | None = None) -> list[Seen]:
        """All spans, or those of one trace, by the time at which they began."""
        with urllib.request.urlopen(f"{self.url}/test/session/traces", timeout=60) as answer:
            found = seen_in(json.load(answer))
        return sorted((span for span in found if trace in (None, span.trace)), key=lambda span: span.start)


def seen_in(requests: list[Any]) -> list[Seen]:
    return [
        _seen(span, _values(part["resource"].get("attributes", [])))
        for request in requests
        for part in request.get("resource_spans", [])
        for scope in part.get("scope_spans", [])
        for span in scope.get("spans", [])
    ]


def _seen(span: Mapping[str, Any], resource: Mapping[str, object]) -> Seen:
    return Seen(
        _hex(span["trace_id"]), _hex(span["span_id"]), _hex(span.get("parent_span_id", "")), span["name"],
        span["kind"].removeprefix("SPAN_KIND_"), int(span["start_time_unix_nano"]),
        int(span["end_time_unix_nano"]), span.get("status", {}).get("code") == "STATUS_CODE_ERROR",
        span.get("trace_state", ""), str(resource["service.name"]), str(resource["service.instance.id"]),
        _values(span.get("attributes", [])),
        tuple((_hex(link["trace_id"]), _hex(link["span_id"])) for link in span.get("links", [])),
    )  # fmt: skip


def _hex(written: str) -> str:
    return base64.b64decode(written).hex()


def _values(attributes: list[Any]) -> dict[str, object]:
    found: dict[str, object] = {}
    for each in attributes:
        ((kind, value),) = each["value"].items()
        found[each["key"]] = int(value) if kind == "int_value" else value
    return found


def _installed() -> Path:
    """The agent's program; it is installed if it is not there, or another version is."""
    wanted, stamp = hashlib.sha256(LOCK.read_bytes()).hexdigest(), HOME / "installed"
    program = HOME / "bin" / "ddapm-test-agent"
    with (Path(sys.prefix) / "trace-receiver.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the suite runs in several processes
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", "--clear", "--without-pip", HOME], check=True)
            pip = [sys.executable, "-m", "pip", "--python", str(HOME / "bin" / "python"), "--quiet"]
            fetch = ["install", "--disable-pip-version-check", "--no-compile", "--require-hashes"]
            subprocess.run([*pip, *fetch, "-r", str(LOCK)], check=True)
            stamp.write_text(wanted)
    return program


@pytest.fixture(scope="session")
def trace_receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TraceReceiver]:
    folder, first = tmp_path_factory.mktemp("receiver"), free_ports(4)
    ports = ("--port", "--otlp-http-port", "--otlp-grpc-port", "--web-ui-port")
    numbered = [word for place, name in enumerate(ports) for word in (name, str(first + place))]
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            [_installed(), *numbered, "--max-requests", "100000"], cwd=folder, stdout=log, stderr=log
        ) as agent,
    ):
        try:
            receiver = TraceReceiver(f"http://127.0.0.1:{first + 1}")
            eventually(lambda: _answers(receiver))
            yield receiver
        finally:
            agent.terminate()


def _answers(receiver: TraceReceiver) -> bool:
    try:
        receiver.spans()
    except OSError:
        return False
    return True
