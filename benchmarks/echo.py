"""The echo that throughput is measured with: the function as Penstock serves it, and 2 KB of text to ask. Most
benchmarks of throughput serve this very file."""

import json
from pathlib import Path

SERVERS = Path(__file__).parent / "peers" / "servers"
TARGET = f"{SERVERS / 'penstock_echo.py'}:batchstring"
MAX_BATCH = ("--max-batch", "64")
FLAGS = ("--workers", "1", *MAX_BATCH)
SIZE = 2048  # characters


def text_of(size: int) -> str:
    return "".join(chr(ord("a") + index % 26) for index in range(size))


TEXT = text_of(SIZE)


def body(text: str = TEXT) -> bytes:
    return json.dumps({"input": text}).encode()


BODY = body()
