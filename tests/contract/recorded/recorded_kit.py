"""What was recorded, and how to tell that it was understood."""

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from penstock.words.heartbeats import (
    Heartbeat,
    read_batcher,
    read_gateway,
    read_worker,
)

RELEASES = sorted(path.stem for path in Path(__file__).parent.glob("*.txt"))
PARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"  # a trace that was recorded
READERS: dict[str, Callable[[bytes], Heartbeat]] = {
    "gateways": read_gateway, "batchers": read_batcher, "workers": read_worker,
}  # fmt: skip


def recorded(kind: str) -> Iterator[Any]:
    """What every recorded release said of this kind."""
    for release in RELEASES:
        for line in Path(__file__).with_name(f"{release}.txt").read_text().splitlines():
            said, _, word = line.partition(": ")
            if said.startswith(kind):
                yield ast.literal_eval(word)


def said_in_registry(kind: str) -> Iterator[tuple[str, bytes]]:
    for word in recorded(f"registry {kind}"):
        name, _, text = word.partition(b" ")
        yield name.decode(), text.partition(b" ")[2] if kind != "models" else text


def plain(value: object) -> Any:
    """As lists and maps."""
    return msgspec.to_builtins(value, builtin_types=(bytes,))


def agrees(told: Any, heard: Any) -> bool:
    """Whether what was heard is what was told, and besides only what was not told."""
    if isinstance(told, list):
        return len(heard) >= len(told) and all(map(agrees, told, heard))
    if isinstance(told, dict):
        return all(name in heard and agrees(value, heard[name]) for name, value in told.items())
    return bool(told == heard)
