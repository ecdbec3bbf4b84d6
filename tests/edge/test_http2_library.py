"""HTTP/2 is spoken with jh2 where it is installed, and with h2 where it is not: the same tests hold for both."""

import subprocess
import sys
from pathlib import Path

from penstock.edge import http2_library

HERE = Path(__file__).parent


def test_jh2_is_taken_where_it_is_installed() -> None:
    assert http2_library.H2Connection.__module__ == "jh2.connection"


def test_without_it_h2_passes_the_same_tests() -> None:
    files = [str(HERE / "test_http2_unit.py"), str(HERE / "test_http2_limits.py")]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "without_jh2", *files],
        cwd=HERE.parents[1],
        env={"PYTHONPATH": str(HERE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert "100%" in ran.stdout
