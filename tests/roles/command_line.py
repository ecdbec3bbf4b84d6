"""`penstock` as a user types it: a process, what it printed, and its exit code."""

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from server import PENSTOCK


def penstock(
    *words: str, directory: Path | None = None, environment: Mapping[str, str] | None = None
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end, in an environment that holds nothing for it but what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    return subprocess.run(
        [str(PENSTOCK), *words],
        cwd=directory,
        env={**inherited, "COLUMNS": "200", "TERM": "dumb", **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def said(stderr: str) -> list[str]:
    """What was told to the person at the terminal: everything but log records, which are JSON here."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]
