"""A receiver of traces that takes everything and does nothing with it, so that only the sender's cost is felt.
`tracing` and `observed` have servers send to it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@contextmanager
def taking() -> Iterator[tuple[str, list[int]]]:
    """The receiver's address, and the bytes of each request that it has got so far."""
    taken: list[int] = []

    class Taken(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            taken.append(len(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *details: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Taken) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", taken
        finally:
            server.shutdown()
