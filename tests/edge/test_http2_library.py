"""HTTP/2 is spoken with jh2 where it is installed, and with h2 where it is not; gRPC has a state machine of its
own. The same tests hold for all three."""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.edge import http2_library

HERE = Path(__file__).parent
# What our own machine does otherwise: it refuses the one stream (`test_http2_machine.py`), and goes on after a
# client's GOAWAY (`test_grpc_unit.py`).
OTHERWISE = "not more_streams_at_once_than_were_offered and not goaway"
NO_FAREWELL = "not farewell"


def test_jh2_is_taken_where_it_is_installed() -> None:
    assert http2_library.H2Connection.__module__ == "jh2.connection"


@pytest.mark.parametrize(
    ("plugin", "chosen"), [("without_jh2", NO_FAREWELL), ("with_own_machine", OTHERWISE)]
)
def test_the_others_pass_the_same_tests(plugin: str, chosen: str) -> None:
    """Without jh2, gRPC has h2 too."""
    names = ["test_http2_unit.py", "test_http2_limits.py"]
    files = [
        str(HERE / name) for name in ([*names, "test_grpc_unit.py"] if plugin == "without_jh2" else names)
    ]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", plugin, "-k", chosen, *files],
        cwd=HERE.parents[1],
        env={"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "100%" in ran.stdout
