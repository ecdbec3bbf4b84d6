"""The example endpoint, examples/http_endpoint, on a free port."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"


@contextmanager
def endpoint() -> Iterator[str]:
    """Its URL."""
    command = [sys.executable, str(EXAMPLES / "http_endpoint/endpoint.py"), "--port", "0", "--delay", "0.001"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().split()[-1]
        finally:
            process.terminate()
