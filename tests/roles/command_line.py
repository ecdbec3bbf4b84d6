"""`penstock` as a user types it: a process, what it printed, and its exit code."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from penstock.cli import main
from server import PENSTOCK

Typed = Callable[..., tuple[int, str, str]]


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
        timeout=100,
        check=False,
    )


def said(stderr: str) -> list[str]:
    """What was told to the person at the terminal: everything but log records, which are JSON here."""
    return [line for line in stderr.splitlines() if not line.startswith("{")]


@pytest.fixture
def typed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Typed:
    """The same without a process of its own, for commands that only ask: its exit code, and what it printed."""

    def run(*words: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["penstock", *words])
        capsys.readouterr()
        code = main()
        return code, *capsys.readouterr()

    return run
