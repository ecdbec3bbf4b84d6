"""A function of 200 ms a batch that writes down which inputs it began and finished. Workers of the benchmark
`faults` serve it, so that it knows which requests a kill met."""

import json
import os
import time

SECONDS = 0.2  # that a batch takes
JOURNAL = os.environ.get("BENCH_JOURNAL", os.devnull)


def run(inputs: list[str]) -> list[str]:
    _note("begin", inputs)
    time.sleep(SECONDS)
    _note("end", inputs)
    return inputs


def _note(event: str, inputs: list[str]) -> None:
    """One write, so that lines of several processes never mix."""
    file = os.open(JOURNAL, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, json.dumps([event, os.getpid(), inputs]).encode() + b"\n")
    finally:
        os.close(file)
