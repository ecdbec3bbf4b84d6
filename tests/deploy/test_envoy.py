"""The files of deploy/envoy, with the real Envoy before real gateways."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path

import pytest

from envoy_kit import ENVOY, Edge, envoy, installed
from http2_client import Http2Client
from server import PATIENT, Answer, Server, call, eventually, running
from token_kit import pem, sign

ISSUER, AUDIENCE = "https://issuer.example", "penstock"
# As docs/kubernetes.md has it. The key is that of the identity provider of the tests.
BEHIND = f"""
[server]
drain_grace = "3s"
[api]
overload_status = 429
[auth]
mode = "jwt"
[auth.jwt]
issuer = "{ISSUER}"
audience = ["{AUDIENCE}"]
algorithms = ["RS256"]
key_file = "%s"
"""
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def token(**claims: object) -> str:
    return sign("RS256", "r0", at=time.time(), iss=ISSUER, aud=AUDIENCE, **claims).decode()


def serving(folder: Path, target: str = "sim:1ms", more: str = PATIENT) -> AbstractContextManager[Server]:
    key = folder / "key.pem"
    key.write_bytes(pem("RS256"))
    return running(target, config=BEHIND % key + more)


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Before one gateway in each of two zones."""
    folder = tmp_path_factory.mktemp("edge")
    with (
        serving(folder) as near,
        serving(folder) as far,
        envoy(folder / "envoy", {"zone-a": [near.url], "zone-b": [far.url]}) as found,
    ):
        yield found


def test_envoy_takes_the_configuration_as_it_is_but_for_folders(tmp_path: Path) -> None:
    done = subprocess.run(
        [ENVOY, "--mode", "validate", "-c", str(installed(tmp_path))], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "eprecated" not in done.stderr


def test_clients_of_http_1_and_of_http_2_are_served_and_their_id_and_trace_go_through(edge: Edge) -> None:
    answer = edge.ask(b'{"input": "hello"}', token(), x_request_id="mine-1", traceparent=PARENT)
    assert (answer.status, answer.json()["output"], answer.json()["request_id"]) == (200, "hello", "mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert "infer;dur=" in answer.headers["server-timing"]
    made = edge.ask(b'{"input": "hello"}', token())
    assert made.headers["x-request-id"] == made.json()["request_id"]
