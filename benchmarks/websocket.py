"""The WebSocket door beside the native one: as many requests as one server takes, 2 KB in and out.

    python -m benchmarks.websocket

One server is loaded in turns: by wrk at `/v1/inference`, and over a few WebSockets at `/v1/stream`, with as many
requests in flight as wrk has connections. Each turn is held against the other of its round, and the order changes
from round to round. The generator for WebSocket is Python (`websocket_process`), and wrk is C; both share the cores
with the server.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from benchmarks import echo, processor, wrk
from benchmarks.before_after import quartiles
from benchmarks.figure import Check, Figure, Say, at_least_one, conduct, options
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table
from benchmarks.wrk import Measurement

NAME = "websocket"
LEAST = 1.2  # of the native door's requests a second
ROOT = Path(__file__).parent.parent
SPARE_SECONDS = 60  # beyond its own time, until the generator counts as hung
WARM_UP_SECONDS = 2  # not counted
SERVER = "the server"
NATIVE, SOCKETS = "/v1/inference", "/v1/stream"


@dataclass(frozen=True, slots=True)
class Turn:
    rate: float  # good answers per second
    cost: float  # microseconds of the server's processor time for each of them
    errors: int


@dataclass(frozen=True, slots=True)
class Round:
    native: Turn
    sockets: Turn

    @property
    def part(self) -> float:
        return self.sockets.rate / self.native.rate if self.native.rate else 0.0


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, rounds=6)
    parser.add_argument("--seconds", type=at_least_one, default=5, help="of each turn; 5 by default")
    parser.add_argument("--connections", type=at_least_one, default=512, help="of wrk; 512 by default")
    parser.add_argument("--sockets", type=at_least_one, default=8, help="WebSockets; 8 by default")
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    rounds = list[Round]()
    with serving(echo.TARGET, *echo.FLAGS) as server:
        for seconds in (WARM_UP_SECONDS, *[given.seconds] * given.rounds):
            order = (_native, _sockets) if len(rounds) % 2 else (_sockets, _native)
            turns = {side: side(server, given, seconds) for side in order}
            rounds.append(Round(turns[_native], turns[_sockets]))
            last = rounds[-1]
            say(f"{last.native.rate:,.0f}/s native  {last.sockets.rate:,.0f}/s WebSocket  {last.part:.2f} ×")
    return figure(rounds[1:], given.connections, given.sockets)


def _native(server: Server, given: argparse.Namespace, seconds: int) -> Turn:
    before = processor.used({SERVER: server.pid})
    measured = wrk.measure(f"{server.url}{NATIVE}", echo.BODY, wrk.Load(given.connections, 1, seconds))
    return _turn(server, before, measured)


def _sockets(server: Server, given: argparse.Namespace, seconds: int) -> Turn:
    before = processor.used({SERVER: server.pid})
    asks = max(1, given.connections // given.sockets)
    return _turn(server, before, load(f"{server.url}{SOCKETS}", given.sockets, asks, seconds, echo.TEXT))


def _turn(server: Server, before: "dict[str, float]", measured: Measurement) -> Turn:
    seconds = processor.between(before, processor.used({SERVER: server.pid}))[SERVER]
    cost = 1e6 * seconds / measured.answers if measured.answers else 0.0
    return Turn(measured.rate, cost, measured.errors)


def load(url: str, sockets: int, asks: int, seconds: float, text: str) -> Measurement:
    """As `wrk.measure`, over WebSocket."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.websocket_process",
        url,
        str(sockets),
        str(asks),
        str(seconds),
    ]
    finished = subprocess.run(
        command,
        input=text.encode(),
        capture_output=True,
        cwd=ROOT,
        timeout=seconds + SPARE_SECONDS,
        check=False,
    )
    if finished.returncode:
        words = finished.stderr.decode(errors="replace").strip().splitlines()
        raise RuntimeError(f"the generator: {words[-1] if words else finished.returncode}")
    return Measurement(**json.loads(finished.stdout))


def figure(rounds: Sequence[Round], connections: int, sockets: int) -> Figure:
    rows = [
        [
            title,
            f"{median(turn.rate for turn in turns):,.0f}",
            f"{median(turn.cost for turn in turns):.1f}",
            str(sum(turn.errors for turn in turns)),
        ]
        for title, turns in (
            (f"`{NATIVE}`, wrk, {connections} connections", [each.native for each in rounds]),
            (f"`{SOCKETS}`, {sockets} WebSockets", [each.sockets for each in rounds]),
        )
    ]
    low, middle, high = quartiles([each.part for each in rounds])
    return Figure(
        title="WebSocket",
        method=(
            f"2 KB of text in and out, echo, batches of up to 64; {connections} requests in flight either way; "
            f"{len(rounds)} rounds on one server; medians."
        ),
        tables=[markdown_table(["", "requests/s", "µs of CPU a request", "errors"], rows)],
        checks=[Check("WebSocket beside the native door", middle, LEAST, "×", at_least=True)],
        notes=[f"Quartiles: {low:.2f} to {high:.2f} ×."],
        data={"rounds": [asdict(each) for each in rounds]},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
