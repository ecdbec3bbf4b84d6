"""Who is measured by `python -m benchmarks.peers`, how each is started, and what each is asked.

All get the same heads, and the same text in the JSON of their own API. All may batch up to 64, wait little and log
no requests; beyond that each runs as it comes.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from benchmarks import echo
from benchmarks.echo import SERVERS, TEXT
from benchmarks.strangers import with_keys
from penstock.adapters.api_keys.file import KeysFile


@dataclass(frozen=True, slots=True)
class Peer:
    """A server to measure. In `command`, {bin}, {port} and {spare} stand for what is known at the start."""

    name: str
    title: str
    command: tuple[str, ...]
    path: str
    setting: str  # what a reader has to know to judge the figure
    body: Callable[[str], Any] = lambda text: {"input": text}
    echoed: Callable[[Any], Any] = lambda answer: answer["output"]
    environment: Mapping[str, str] = field(default_factory=dict)
    requirements: str | None = None  # a file in requirements/; None: Penstock's own environment
    interpreter: str = sys.executable  # that makes the environment
    furnish: Callable[[Path], None] = lambda folder: (
        None
    )  # puts what it needs into the folder it is started in
    credentials: Sequence[
        str
    ] = ()  # for the Authorization header, in turn; none: nobody is asked who they are

    def payload(self, text: str = TEXT) -> bytes:
        return json.dumps(self.body(text)).encode()


PENSTOCK = Peer(
    name="penstock",
    title="Penstock",
    command=(
        "{bin}/penstock", "serve", echo.TARGET, *echo.FLAGS, "--port", "{port}", "--admin-port", "{spare}",
    ),
    path="/v1/inference",
    setting="function in its own process",
)  # fmt: skip

GRANIAN = Peer(
    name="granian",
    title="bare Granian",
    command=("{bin}/python", f"{SERVERS / 'granian_echo.py'}", "{port}"),
    path="/",
    echoed=lambda answer: answer["input"],
    setting="the limit: RSGI, no function, no batch",
)

MOSEC = Peer(
    name="mosec",
    title="Mosec",
    command=("{bin}/python", f"{SERVERS / 'mosec_echo.py'}", "--port", "{port}"),
    path="/inference",
    requirements="mosec",
    setting="function in its own process",
)

LITSERVE = Peer(
    name="litserve",
    title="LitServe",
    command=("{bin}/python", f"{SERVERS / 'litserve_echo.py'}", "{port}"),
    path="/predict",
    requirements="litserve",
    setting="function in its own process, wait 1 ms",
)

BENTOML = Peer(
    name="bentoml",
    title="BentoML",
    command=(
        "{bin}/bentoml", "serve", "--working-dir", f"{SERVERS}", "--host", "127.0.0.1", "--port", "{port}",
        "bentoml_echo:Echo",
    ),
    path="/batchstring",
    body=lambda text: {"inputs": [text]},
    echoed=lambda answer: answer[0],
    environment={"BENTOML_DO_NOT_TRACK": "true"},
    requirements="bentoml",
    setting="function in the server's process",
)  # fmt: skip

RAY = Peer(
    name="ray",
    title="Ray Serve",
    command=("{bin}/python", f"{SERVERS / 'ray_echo.py'}", "{port}"),
    path="/",
    environment={"RAY_USAGE_STATS_ENABLED": "0"},
    requirements="ray",
    setting="function in its own process, wait 1 ms",
)

# Ray's own switches for throughput: HAProxy in place of its Python proxy, straight to the replica.
RAY_HAPROXY = Peer(
    name="ray-haproxy",
    title="Ray Serve + HAProxy",
    command=RAY.command,
    path=RAY.path,
    environment={
        **RAY.environment,
        "RAY_SERVE_THROUGHPUT_OPTIMIZED": "1",
        "RAY_SERVE_ENABLE_HA_PROXY": "1",
    },
    requirements="ray",
    setting="function in the server's process, wait 1 ms",
)

TRITON = Peer(
    name="triton",
    title="Triton (PyTriton)",
    command=("{bin}/python", f"{SERVERS / 'pytriton_echo.py'}", "{port}"),
    path="/v2/models/echo/infer",
    body=lambda text: {"inputs": [{"name": "input", "shape": [1, 1], "datatype": "BYTES", "data": [text]}]},
    echoed=lambda answer: answer["outputs"][0]["data"][0],
    requirements="pytriton",
    interpreter="/usr/bin/python3",  # its Triton loads the system's libpython, so only the system's will do
    setting="function in its own process, wait 1 ms",
)

ROSTER = (PENSTOCK, GRANIAN, MOSEC, TRITON, RAY_HAPROXY, LITSERVE, BENTOML, RAY)


def behind_keys() -> Peer:
    """Penstock once more, where each request has an API key: a thousand tenants, each with one of its own."""
    strangers = with_keys()

    def furnish(folder: Path) -> None:
        strangers.write(folder)  # a penstock.toml, which `penstock serve` finds by itself
        strangers.enrol(KeysFile(folder / "keys.json"))

    return replace(
        PENSTOCK,
        name="penstock-keys",
        title="Penstock, API keys",
        setting=f"the same, {len(strangers.credentials):,} tenants with keys and quotas",
        furnish=furnish,
        credentials=strangers.credentials,
    )
