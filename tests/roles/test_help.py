"""Every command's help teaches by an example, which has only options and commands that there are."""

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from penstock.cli.app import app_for


def commands(command: Any, path: str) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if inner is None:
        yield path, command
        return
    for name, each in inner.items():
        yield from commands(each, f"{path} {name}")


ALL = dict(commands(typer.main.get_command(app_for([])), "penstock"))


@pytest.mark.parametrize("path", ALL)
def test_its_help_has_an_example_that_could_be_typed(path: str) -> None:
    command = ALL[path]
    examples = re.findall(rf"^(?:\s+|\s*Example: )({path}(?: .*)?)$", command.help or "", re.MULTILINE)
    assert examples, command.help
    options = {
        option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)
    }
    for example in examples:
        words = shlex.split(example.partition(" && ")[0])
        assert {word for word in words if word.startswith("-") and word != "-"} <= options, example


@pytest.mark.parametrize("path", ALL)
def test_every_option_says_what_it_does(path: str) -> None:
    assert [each.name for each in ALL[path].params if not each.help] == []
