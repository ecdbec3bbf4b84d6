"""OpenAI's embeddings of one string beside the native door: as many requests as one server takes.

    python -m benchmarks.openai_door

One server has two models, whose functions give 384 and 1,024 numbers for a short text. wrk loads it in turns at
`/v1/inference`, and at `/v1/embeddings` with base64, as OpenAI's client for Python asks, and with float. Each turn
is held against the native one of its round and its size, and the order changes from round to round.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks import processor, wrk
from benchmarks.before_after import quartiles
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table

NAME = "openai_door"
LEAST = 0.8  # of the native door's requests a second
NATIVE, BASE64, FLOAT = "native", "base64", "float"
PATHS = {NATIVE: "/v1/inference", BASE64: "/v1/embeddings", FLOAT: "/v1/embeddings"}
SIZES = (384, 1024)  # numbers of a vector: small models of sentences have 384, large ones 1,024
# The size that decides. It is that of all-MiniLM-L6-v2, bge-small, e5-small and others that are fast enough for so
# many requests. The native door sends numbers as they are, and base64 has to read and pack each of them, so that
# with larger vectors a request costs more there.
PROMISED = 384
TEXT = "A small text, of which an embedding is wanted."
WARM_UP_SECONDS = 2  # not counted
# Numbers as a model makes them: float32, so that each has as many digits as a number can have.
FUNCTION = """
from array import array
from random import Random

def vector(size):
    return array("f", [Random(number).gauss(0, 0.05) for number in range(size)]).tolist()

SMALL, LARGE = vector({0}), vector({1})

def small(texts):
    return [SMALL for each in texts]

def large(texts):
    return [LARGE for each in texts]
"""
CONFIG = """
[models.v{0}]
target = "{file}:small"
max_batch = 64

[models.v{1}]
target = "{file}:large"
max_batch = 64
"""


class Turn(NamedTuple):
    rate: float  # good answers per second
    cost: float  # microseconds of the server's processor time for each of them
    errors: int


Round = Mapping[str, Turn]  # by the way it was asked


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=6)
    parser.add_argument("--seconds", type=at_least_one, default=3, help="of each turn; 3 by default")
    parser.add_argument("--connections", type=at_least_one, default=256, help="256 by default")
    return parser.parse_args(argv)


def body(way: str, size: int) -> bytes:
    said: dict[str, Any] = {"model": f"v{size}", "input": TEXT}
    if way != NATIVE:
        said["encoding_format"] = way
    return json.dumps(said).encode()


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    rounds: dict[int, list[Round]] = {size: [] for size in SIZES}
    with tempfile.TemporaryDirectory() as folder:
        function, config = Path(folder, "vectors.py"), Path(folder, "penstock.toml")
        function.write_text(FUNCTION.format(*SIZES))
        config.write_text(CONFIG.format(*SIZES, file=function))
        with serving(f"--config={config}") as server:
            for number in range(1 + given.rounds):
                for size in SIZES:
                    seconds = given.seconds if number else WARM_UP_SECONDS
                    rounds[size].append(one_round(server, size, seconds, given.connections, turned=number))
                    last = rounds[size][-1]
                    say("  ".join([f"{size}:", *(f"{last[way].rate:,.0f}/s {way}" for way in PATHS)]))
    return figure({size: done[1:] for size, done in rounds.items()}, given.connections)


def one_round(server: Server, size: int, seconds: int, connections: int, *, turned: int) -> Round:
    ways = list(PATHS)
    turned %= len(ways)
    return {way: _turn(server, way, size, seconds, connections) for way in ways[turned:] + ways[:turned]}


def _turn(server: Server, way: str, size: int, seconds: int, connections: int) -> Turn:
    name = "the server"
    before = processor.used({name: server.pid})
    load = wrk.Load(connections, 1, seconds)
    measured = wrk.measure(f"{server.url}{PATHS[way]}", body(way, size), load)
    spent = processor.between(before, processor.used({name: server.pid}))[name]
    return Turn(measured.rate, 1e6 * spent / measured.answers if measured.answers else 0.0, measured.errors)


def parts(rounds: Sequence[Round], way: str) -> list[float]:
    """The rate of each round, as a part of that of the native door."""
    return [each[way].rate / each[NATIVE].rate if each[NATIVE].rate else 0.0 for each in rounds]


def figure(rounds: Mapping[int, Sequence[Round]], connections: int) -> Figure:
    rows, notes = [], []
    for size, done in rounds.items():
        for way, path in PATHS.items():
            turns = [each[way] for each in done]
            rows.append(
                [
                    f"{size}, `{path}`{'' if way == NATIVE else f', {way}'}",
                    f"{median(turn.rate for turn in turns):,.0f}",
                    f"{median(parts(done, way)):.2f}",
                    f"{median(turn.cost for turn in turns):.1f}",
                    str(sum(turn.errors for turn in turns)),
                ]
            )
            if way != NATIVE:
                low, _, high = quartiles(parts(done, way))
                notes.append(f"Quartiles of {size}, {way}: {low:.2f} to {high:.2f} ×.")
    return Figure(
        title="OpenAI's embeddings of one string",
        method=(
            f"A short text in, vectors of {' and '.join(f'{size:,}' for size in rounds)} numbers out, batches of "
            f"up to 64, wrk with {connections} connections; {len(rounds[PROMISED])} rounds on one server; medians. "
            f"The promise is for vectors of {PROMISED} numbers."
        ),
        tables=[
            markdown_table(["numbers, path", "requests/s", "× native", "µs of CPU a request", "errors"], rows)
        ],
        checks=[
            Check(
                f"{way} beside the native door",
                median(parts(rounds[PROMISED], way)),
                LEAST,
                "×",
                at_least=True,
            )
            for way in (BASE64, FLOAT)
        ],
        notes=notes,
        data={
            "rounds": {
                size: [{way: turn._asdict() for way, turn in each.items()} for each in done]
                for size, done in rounds.items()
            }
        },
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
