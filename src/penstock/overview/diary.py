"""The diary of one process: what it has counted in each step of the last hour, and in the last seconds.

`runtime/own_overview.py` keeps one for each process. A step is noted every 10 s, whether anybody looks or not,
because an operator who opens the page wants to see what came before. A step costs about 0.1 ms. `recent` may be
called at any time, for somebody who looks: each look is kept for some seconds, so that later ones can be compared
with it.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from msgspec import msgpack

from penstock.overview.counts import Counts, between, is_empty
from penstock.overview.reports import Moment, Standing, Step

STEP = 10  # seconds
STEPS = 360  # an hour
RECENT = 5.0  # seconds: what is shown as "now" is the mean of at least so many, once these have passed
SPARE = 0.9  # seconds: looks that come sooner after another are not kept

Counted = Mapping[str, Counts]  # the counts of each model at one moment

NOTHING = Counts()
_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(Step).decode


class Diary:
    def __init__(self, now: float) -> None:
        """`now`: the process has just started, and has counted nothing."""
        self._noted: tuple[float, Counted] = (
            now,
            {},
        )  # when the last step ended, and the counts at that time
        # The looks of the last seconds, the newest last; at most RECENT / SPARE + 2 of them.
        self._looks: deque[tuple[float, Counted]] = deque([(now, {})])
        # The steps as bytes: an hour of structs would be a hundred thousand objects for the collector to visit.
        self._steps: deque[bytes] = deque(maxlen=STEPS)

    def note(self, sample: Counted, standings: Mapping[str, Standing], now: float, at: float) -> None:
        """Note a step. `at`: the time of day, in seconds since the epoch."""
        before, counted = self._noted
        self._noted = (now, sample)
        moments = {
            name: _moment(between(counted.get(name, NOTHING), counts), standings.get(name))
            for name, counts in sample.items()
        }
        told = {
            name: moment for name, moment in moments.items() if moment.queue or not is_empty(moment.counts)
        }
        self._steps.append(_encode(Step(int(at), now - before, told)))
        self.recent(sample, now)

    def recent(self, sample: Counted, now: float) -> tuple[float, dict[str, Counts]]:
        """Returns what has been counted in the last seconds, and in how many."""
        looks = self._looks
        while len(looks) > 1 and now - looks[1][0] >= RECENT:
            looks.popleft()
        then, counted = looks[0]
        if now - looks[-1][0] >= SPARE:
            looks.append((now, sample))
        return now - then, {
            name: between(counted.get(name, NOTHING), counts) for name, counts in sample.items()
        }

    def hour(self) -> Iterator[Step]:
        """Returns the steps of the last hour, the oldest first."""
        return map(_decode, self._steps)


def _moment(counts: Counts, standing: Standing | None) -> Moment:
    if standing is None:
        return Moment(counts)
    return Moment(counts, standing.queue, round(standing.capacity, 2))
