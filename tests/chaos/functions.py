"""User code that misbehaves when an input asks for it, and writes down every batch it was given.

An input is `kind:name`; only the kind decides. Where to write and how long a batch takes come from the
environment, so that a test can look and meddle while the server runs.
"""

import ctypes
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

JOURNAL = os.environ.get("CHAOS_JOURNAL", os.devnull)  # a line is appended for each batch begun or ended
DELAY = os.environ.get("CHAOS_DELAY", "")  # a file that holds the seconds a batch takes

MIB = 2**20
_hoard: list[bytes] = []


def note(event: str, inputs: list[str]) -> None:
    """One write, so that lines of several processes never mix."""
    entry = {"event": event, "at": time.monotonic(), "pid": os.getpid(), "inputs": inputs}
    file = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps(entry).encode() + b"\n")
    finally:
        os.close(file)


def answer_to(text: str) -> str:
    """What the function makes of an input: nobody else's output looks like it."""
    return text[::-1]


def batchstring(inputs: list[str]) -> list[str]:
    note("begin", inputs)
    if DELAY:
        time.sleep(float(Path(DELAY).read_text()))
    outputs = [answer_to(text) for text in inputs]
    for text in inputs:
        misbehave(text.partition(":")[0], outputs)
    bytearray(8 * MIB)  # a model needs room for every batch
    note("end", inputs)
    return outputs


def misbehave(kind: str, outputs: list[str]) -> None:
    match kind:
        case "raise":
            raise ValueError("an input that nobody can compute")
        case "exit":
            sys.exit(3)
        case "die":
            os._exit(4)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "short":
            outputs.pop()
        case "long":
            outputs.append("nobody's")
        case "spin":
            spin()
        case "sleep":
            time.sleep(3600)
        case "hold":  # PyDLL keeps the GIL: not even another thread of the process gets a turn
            ctypes.PyDLL(None).sleep(3600)
        case "leak":  # and keep it: only a new process is free of it
            while True:
                _hoard.append(bytes(MIB))  # which nobody touches, so that a slow machine is soon done with it


def spin() -> NoReturn:
    while True:
        pass
