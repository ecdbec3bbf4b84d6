"""Measures every server of the roster once in each round, so that a machine that is slow for a minute is slow for
all of them. `peers` calls `play`."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from benchmarks import heads, wrk
from benchmarks.echo import SIZE
from benchmarks.peers.environment import CannotSetUp, prepare
from benchmarks.peers.roster import Peer
from benchmarks.peers.server import Unfit, check_echo, running

WARM_UP_SECONDS = 2  # not counted


@dataclass(slots=True)
class Standing:
    """The measurements of one peer, which is measured until it fails."""

    peer: Peer
    measurements: list[wrk.Measurement] = field(default_factory=list)
    not_run: str = ""  # why, if so

    @property
    def rate(self) -> float | None:
        """Answers per second, the median of all rounds; none if it failed in any."""
        return None if self.not_run else median(m.rate for m in self.measurements)

    @property
    def errors(self) -> int:
        return sum(m.errors for m in self.measurements)


def play(
    peers: Sequence[Peer],
    rounds: int,
    kind: str,
    load: wrk.Load,
    say: Callable[[str], None],
    size: int = SIZE,
) -> list[Standing]:
    """`kind`: of heads. `size`: characters of each input."""
    standings = [Standing(peer) for peer in peers]
    programs = {s.peer.name: _programs(s) for s in standings}
    for number in range(rounds):
        # Every other round goes in reverse: no peer is always first, and neighbours stay next to each other.
        for standing in standings if number % 2 == 0 else reversed(standings):
            folder = programs[standing.peer.name]
            if folder is not None and not standing.not_run:
                said = _turn(standing, folder, kind, load, size)
                say(f"round {number + 1}/{rounds}  {standing.peer.title:<20} {said}")
    return standings


def _programs(standing: Standing) -> Path | None:
    try:
        return prepare(standing.peer)
    except CannotSetUp as reason:
        standing.not_run = str(reason)
        return None


def _turn(standing: Standing, programs: Path, kind: str, load: wrk.Load, size: int) -> str:
    peer = standing.peer
    try:
        with running(peer, programs) as url:
            offer = heads.prepared(kind, url, peer.payload, peer.credentials, size)
            offer(load.lasting(WARM_UP_SECONDS))
            # This is answered only when the server has done what the warm-up left in its queue.
            check_echo(peer, url)
            measurement = offer(load)
    except (Unfit, OSError, RuntimeError) as reason:
        standing.not_run = str(reason)
        return f"not run: {reason}"
    standing.measurements.append(measurement)
    return f"{measurement.rate:>9,.0f}/s" + (f"  {measurement.errors} errors" if measurement.errors else "")
