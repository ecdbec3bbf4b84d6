"""An endpoint that notes the trace of each call, and a receiver that keeps what it is sent as it came."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from trace_receiver import Seen, seen_in

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
PARENT = f"00-{TRACE}-{SPAN}-01"


class Noting(ThreadingHTTPServer):
    """Notes each call: its inputs, and the trace it belongs to. It refuses calls that hold a poisoned input."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Echo)
        self.calls: list[tuple[list[str], str | None, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/"


class _Quiet(BaseHTTPRequestHandler):
    def answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def body(self) -> bytes:
        return self.rfile.read(int(self.headers["content-length"]))

    def log_message(self, *details: object) -> None: ...


class _Echo(_Quiet):
    def do_POST(self) -> None:
        endpoint = self.server
        assert isinstance(endpoint, Noting)
        inputs = json.loads(self.body())["inputs"]
        endpoint.calls.append((inputs, self.headers["traceparent"], self.headers["tracestate"]))
        good = "poison" not in inputs
        self.answer(200 if good else 500, json.dumps({"outputs": inputs}).encode() if good else b"no")


class Keeping(ThreadingHTTPServer):
    """A receiver that answers as it is told, and keeps the bodies of what it has taken."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Take)
        self.statuses: list[int] = []  # of the next answers; then 200
        self.said = b""  # the body of its answers
        self.closes = False  # whether it closes a connection after an answer, and does not say so
        self.taken: list[bytes] = []
        self.heads: list[dict[str, str]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def spans(self) -> list[Seen]:
        requests = [ExportTraceServiceRequest.FromString(body) for body in self.taken]
        return seen_in([MessageToDict(each, preserving_proto_field_name=True) for each in requests])


class _Take(_Quiet):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        receiver, body = self.server, self.body()
        assert isinstance(receiver, Keeping)
        status = receiver.statuses.pop(0) if receiver.statuses else 200
        receiver.heads.append({**dict(self.headers.items()), "path": self.path})
        if status == 200:
            receiver.taken.append(body)
        self.answer(status, receiver.said)
        self.close_connection = receiver.closes


@contextmanager
def noting() -> Iterator[Noting]:
    with Noting() as server, _served(server):
        yield server


@contextmanager
def keeping() -> Iterator[Keeping]:
    with Keeping() as server, _served(server):
        yield server


@contextmanager
def _served(server: ThreadingHTTPServer) -> Iterator[None]:
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
