"""Writes what a simulation has found as JSON, to a file or to standard output. `cli/sim.py` and its forms for zones
and cells call it."""

import json
from pathlib import Path
from typing import Any

import typer

from penstock.errors import UserMistake


def write_json(found: Any, file: str | None) -> None:
    """`file`: where to; `-` for standard output, None for nowhere."""
    if file is None:
        return
    text = json.dumps(found, indent=2)
    if file == "-":
        typer.echo(text)
        return
    try:
        Path(file).write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UserMistake(f"cannot write {file}: {error.strerror}") from None
