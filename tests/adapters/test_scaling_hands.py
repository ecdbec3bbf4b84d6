"""The hands of the autoscaler that run a command, or only tell."""

import asyncio
import os
import sys
from pathlib import Path

import pytest

from penstock.adapters.scaling.command import Command
from penstock.adapters.scaling.telling import Lines, OnlyTold
from penstock.errors import UserMistake
from penstock.ports.scaling import NotScaled

NOTES = """\
import os, sys
with open(sys.argv[1], "a") as file:
    print(sys.argv[2], os.environ["PENSTOCK_WORKERS"], file=file)
"""


def run(command: str, workers: int, timeout: float = 60.0) -> None:
    async def scene() -> None:
        hand = Command(command, timeout)
        assert await hand.present() is None
        await hand.scale(workers)
        await hand.close()

    asyncio.run(scene())


def test_a_command_is_given_the_number_and_run_without_a_shell(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(NOTES)
    noted = tmp_path / "what was noted"
    run(f"{sys.executable} {tmp_path}/notes.py '{noted}' n={{workers}};", 3)
    assert noted.read_text() == "n=3; 3\n"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (f"{sys.executable} -c 'print(\"no quota\"); raise SystemExit(4)'", "ended with 4: no quota"),
        ("no-such-program {workers}", "no-such-program cannot be run: No such file or directory"),
    ],
)
def test_a_command_that_fails_says_why(command: str, says: str) -> None:
    with pytest.raises(NotScaled, match=says):
        run(command, 2)


def test_a_command_that_does_not_end_is_ended_with_all_that_it_started(tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)  # nobody writes there
    with pytest.raises(NotScaled, match=r"did not end within 0\.2 s"):
        run(f"sh -c 'cat {held} & wait'", 2, timeout=0.2)


def test_a_command_line_that_is_none_is_told_at_the_start() -> None:
    with pytest.raises(UserMistake, match=r"autoscaler\.command"):
        Command("nomad 'scale {workers}", 1.0)


def test_a_supervisor_is_told_in_a_line_and_has_said_how_many_there_are() -> None:
    async def scene() -> None:
        said: list[str] = []
        hand = Lines(2, said.append)
        assert await hand.present() == 2
        await hand.scale(5)
        assert await hand.present() == 5
        assert said == ["workers: 5"]
        told = OnlyTold()
        await told.scale(3)
        assert await told.present() is None

    asyncio.run(scene())
