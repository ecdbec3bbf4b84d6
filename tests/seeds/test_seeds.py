"""Random simulations hold all promises, and their checks notice what does not. Each runs in a process of its own,
where hashes are the same in every replay."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> str:
    command = [sys.executable, "-m", "tests.seeds", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.timeout(7200)
def test_every_seed_holds_every_promise(chaos_long: bool, chaos_seed: int) -> None:
    """The short form plays the first sixty each time, the long one others each time."""
    number, first, jobs = (10_000, chaos_seed, os.cpu_count() or 1) if chaos_long else (60, 0, 1)
    assert f"{number} seeds" in run("--seeds", str(number), "--from", str(first), "--jobs", str(jobs))


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("how", [[], ["--wanted"]], ids=["stray", "wanted"])
def test_cancellation_at_any_await_loses_nothing(how: list[str], chaos_long: bool) -> None:
    scenes, every = (range(8), "1") if chaos_long else (range(3, 4), "40")
    for scene in scenes:
        assert "0 failed" in run("--sweep", str(scene), "--every", every, *how)


def test_mistakes_that_are_made_on_purpose_are_noticed() -> None:
    assert "NOT NOTICED" not in run("--mistakes")
