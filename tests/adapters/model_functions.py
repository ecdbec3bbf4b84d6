"""What people's models return and take. Only ever run in a process of its own."""

import asyncio
import dataclasses
import datetime
import decimal
import os
import sys
import uuid
from collections import OrderedDict, deque
from pathlib import Path
from typing import Any, NamedTuple

from penstock import Output


@dataclasses.dataclass
class Found:
    label: str
    scores: list[float]


class Span(NamedTuple):
    start: int
    end: int


def plain_things(inputs: list[Any]) -> list[Any]:
    """By name, so that a test can say which."""
    things = {
        "text": "text",
        "number": 7,
        "yes": True,
        "nothing": None,
        "bytes": b"\x00\xff",
        "dataclass": Found("cat", [0.5, 1.0]),
        "named tuple": Span(1, 2),
        "tuple": (1, "a"),
        "set": {3},
        "decimal": decimal.Decimal("1.50"),
        "uuid": uuid.UUID(int=1),
        "day": datetime.date(2026, 1, 2),
        "deque": deque([1, 2]),
        "ordered": OrderedDict(b=1, a=2),
        "dict by number": {1: "one"},
    }
    return [things[name] for name in inputs]


def libraries(inputs: list[Any]) -> list[str]:
    """Those that only a user's code may bring in."""
    return [name for name in inputs if name in sys.modules]


def as_told(inputs: list[Any]) -> list[Any]:
    """Good and bad outputs in one batch."""
    return [_told(text) for text in inputs]


def _told(text: Any) -> Any:
    match text:
        case "nan":
            return [1.0, float("nan")]
        case "infinity":
            return {"score": -float("inf")}
        case "null":
            return [None, "null"]
        case "object":
            return object()
        case "object inside":
            return {"a": [1, {2j}]}
        case "half a character":
            return "\ud83d"
        case "error":
            return ValueError("no room for 17")
        case "raises":
            return Stubborn()
        case "noted":
            return Output("noted", tokens_used=3)
        case "noted nan":
            return Output(float("nan"), tokens_used=3)
    return text


class Stubborn:
    def tolist(self) -> list[Any]:
        raise RuntimeError("not now")


def by_second(inputs: list[str], options: dict[str, Any]) -> list[Any]:
    return [options for _ in inputs]


def by_keywords(inputs: list[str], top_k: int = 5, *, sample: bool = False) -> list[Any]:
    return [[top_k, sample] for _ in inputs]


def by_any_keyword(inputs: list[str], **options: Any) -> list[Any]:
    return [options for _ in inputs]


def by_optional_dict(inputs: list[str], params: dict[str, Any] | None = None) -> list[Any]:
    return [params for _ in inputs]


class Model:
    """Says what was called, and in which order."""

    def __init__(self, suffix: str = "!") -> None:
        self.calls = ["made"]
        self.suffix = suffix

    def setup(self) -> None:
        self.calls.append("set up")

    def __call__(self, inputs: list[str]) -> list[str]:
        self.calls.append("called")
        return [",".join(self.calls) + self.suffix for _ in inputs]

    def shout(self, inputs: list[str], *, twice: bool = False) -> list[str]:
        return [text.upper() * (1 + twice) for text in inputs]

    def close(self) -> None:
        Path(os.environ["CLOSED"]).write_text("closed")


class AsyncModel:
    async def setup(self) -> None:
        await asyncio.sleep(0)
        self.loop = asyncio.get_running_loop()

    def __call__(self, inputs: list[str]) -> list[str]:
        """Not async itself, and on the same loop."""
        return [str(asyncio.get_running_loop() is self.loop) for _ in inputs]

    async def close(self) -> None:
        await asyncio.to_thread(Path(os.environ["CLOSED"]).write_text, "closed")


class NeverCloses:
    def __call__(self, inputs: list[str]) -> list[str]:
        return inputs

    def close(self) -> None:
        Path(os.environ["CLOSED"]).write_text("closing")
        while True:
            pass


model = Model("?")


def raising(inputs: list[str], parameters: dict[str, Any]) -> list[str]:
    raise ValueError(f"cannot multiply 3x4 and 5x6 for {inputs[0]} with {parameters}")


# ---- warming up --------------------------------------------------------------------------------------------


def warmup(inputs: list[str] | None = None) -> list[Any]:
    """Served by one test, and made use of by another."""
    return [[1, 2]]


class Warm:
    def setup(self) -> None:
        self.warmed = "cold"

    def warmup(self) -> str:
        self.warmed = "warm"
        return "a text"

    def __call__(self, inputs: list[str]) -> list[str]:
        return [self.warmed for _ in inputs]


class AsyncWarm(Warm):
    async def warmup(self) -> list[Any]:  # type: ignore[override]
        await asyncio.sleep(0)
        return ["one", {"two": 2}]


class WarmByItself(Warm):
    def warmup(self) -> None:  # type: ignore[override]
        self(["itself"])


class WarmedByHand(Warm):
    def warmup(self, rounds: int) -> str:  # type: ignore[override]
        return "a text" * rounds


# ---- memory ------------------------------------------------------------------------------------------------


class OutOfMemoryError(RuntimeError):
    """As torch has one."""


class XlaRuntimeError(RuntimeError):
    """As JAX has one."""


class Fail(Exception):
    """As ONNX Runtime has one."""

    __module__ = "onnxruntime.capi.onnxruntime_pybind11_state"


class Speechless(RuntimeError):
    def __str__(self) -> str:
        raise ValueError


def run_out(inputs: list[str]) -> list[str]:
    match inputs[0]:
        case "torch":
            raise OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        case "old torch":
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 1.00 GiB total)")
        case "jax":
            raise XlaRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes.")
        case "onnx":
            raise Fail("[ONNXRuntimeError] : 6 : Failed to allocate memory for requested buffer of size 1")
        case "numpy":
            raise MemoryError("Unable to allocate 8.00 GiB")
        case "wrapped":
            raise ValueError("no embedding") from OutOfMemoryError()
        case "while handled":
            try:
                raise OutOfMemoryError
            except OutOfMemoryError:
                raise KeyError("lost") from None
        case "speechless":
            raise Speechless
        case "another":
            raise ValueError("CUDA out of luck")
        case text:
            raise RuntimeError(text)
