"""A fixed HTTP endpoint as somebody else might own it: one batch at a time, and slow.

python examples/http_endpoint/endpoint.py --port 9100 --delay 0.1
penstock serve --config examples/http_endpoint/penstock.toml
"""

import argparse
import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any


def reverse(inputs: list[str]) -> list[str]:
    return [text[::-1] for text in inputs]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps the connection from batch to batch
    disable_nagle_algorithm = True  # or an answer may wait 40 ms for an acknowledgement
    gpu = Lock()  # there is one
    delay = 0.1

    def do_GET(self) -> None:
        self.answer(200 if self.path == "/health" else 404, {})

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            inputs = json.loads(body)["inputs"]
        except (ValueError, KeyError, TypeError):
            return self.answer(400, {"error": 'send {"inputs": [...]}'})
        with self.gpu:
            time.sleep(self.delay)
            return self.answer(200, {"outputs": reverse(inputs)})

    def answer(self, status: int, content: dict[str, Any]) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Quiet: Penstock counts and times the batches."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=9100)
    parser.add_argument("--delay", type=float, default=0.1, help="seconds for a batch, however large")
    options = parser.parse_args()
    Handler.delay = options.delay
    with ThreadingHTTPServer(("127.0.0.1", options.port), Handler) as server:
        print(f"taking batches on http://127.0.0.1:{server.server_port}/batch", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    main()
