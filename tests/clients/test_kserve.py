"""KServe's own client, over HTTP and over gRPC."""

from pathlib import Path

import pytest
from environments import run

from grpc_calls import address_of
from server import PATIENT, running


@pytest.mark.timeout(900)
def test_kserve_s_client_finds_all_that_it_asks_for(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("def echo(inputs):\n    return inputs\n")
    with running(f"{app}:echo", "--grpc-port", "0", config=PATIENT) as server:
        said = run("kserve", server.url, address_of(server))
    assert said["http"] == said["grpc"] == [True, True, True]
    assert said["texts True"] == said["texts False"] == ["a", "bö"]
    ones = [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0]]
    assert said["numbers True"] == said["numbers False"] == said["grpc numbers"] == ones
    assert "no model 'nobody'; this server has echo" in said["error"]
