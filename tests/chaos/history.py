"""What was sent, what was answered, what was executed; and what must hold of the three.

lost        accepted, and without its one answer by its deadline and a grace
duplicated  an answer that nobody had asked for, or not any more
wrong       an answer that is another's: the output, or the request's id
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from random import Random

from functions import answer_to

GRACE = 0.25  # seconds past its deadline until an unanswered request counts as lost
AGAIN = "+"  # at the end of the id of a request, for each attempt after the first
NOISE = 10.0  # the same where only a hang is to be told from an answer, however slow the machine
REQUEST = 4.0  # seconds that a request has at the default settings
# Seconds: Redis may be silent for 0.08 before requests are refused, and is back when it is heard; a lease is 1.
STANDSTILL, AFTERWARDS = 0.06, 1.0
TOO_LONG = 1.0  # seconds of a request's time in which the machine stood still, after which it may be too late


@dataclass(slots=True, frozen=True)
class Ask:
    """One request of a schedule."""

    due: float  # seconds from the start
    input: str
    timeout: float = REQUEST  # seconds; told to the server, so that both know the deadline
    client: str | None = None
    leaves_after: float | None = None  # the client hangs up so long after sending
    told: bool = True  # else the server's own default is the deadline


@dataclass(slots=True, eq=False)
class Record:
    """What became of one request. Times are monotonic seconds."""

    ask: Ask
    id: str
    sent: float = 0.0
    done: float = 0.0
    status: int = 0  # 0: no answer
    code: str = ""  # of the error
    message: str = ""
    output: str | None = None
    answered_id: str = ""
    left: bool = False
    unsent: bool = False  # no connection could be had
    broken: bool = False  # the connection ended before the answer
    replayed: bool = False  # the answer to an earlier attempt, given again
    url: str = ""  # of the server it was sent to

    @property
    def ok(self) -> bool:
        return self.status == 200

    @property
    def refused(self) -> bool:
        return self.status == 503

    @property
    def names_its_asker(self) -> bool:
        """An answer that is given again names the attempt that was first."""
        if self.replayed:
            return self.answered_id.rstrip(AGAIN) == self.id.rstrip(AGAIN)
        return self.answered_id == self.id


@dataclass(slots=True)
class History:
    seed: int
    began: float = 0.0
    records: list[Record] = field(default_factory=list)
    unasked: int = 0  # answers on a connection where nothing was asked
    expected: Callable[[str], str] = answer_to  # what the backend makes of an input
    stalls: list[tuple[float, float]] = field(default_factory=list)  # when the generator was held up itself
    killed: set[str] = field(default_factory=set)  # servers whose end took their connections with it

    def seconds(self, record: Record) -> float:
        """How long the answer took, but for the time in which nobody could have seen it come."""
        return record.done - record.sent - self.stalled(record.sent, record.done)

    def stalled(self, begin: float, end: float) -> float:
        """Seconds between the two in which this process did not get to run, and so perhaps nobody did."""
        return sum(max(0.0, min(until, end) - max(since, begin)) for since, until in self.stalls)

    def lost(self, grace: float) -> list[Record]:
        return [record for record in self.records if self._lost(record, grace)]

    def _lost(self, record: Record, grace: float) -> bool:
        if record.left or record.unsent or (record.broken and record.url in self.killed):
            return False
        return not record.status or self.seconds(record) > record.ask.timeout + grace

    def wrong(self) -> list[Record]:
        """A failure must name its asker too."""
        return [
            record
            for record in self.records
            if (record.ok and record.output != self.expected(record.ask.input))
            or (record.status and not record.names_its_asker)
        ]

    def check(self, grace: float = NOISE) -> None:
        """What holds in every row."""
        assert not self.lost(grace), f"seed {self.seed}: lost {self.lost(grace)[:3]}"
        assert self.unasked == 0, f"seed {self.seed}: {self.unasked} answers that nobody asked for"
        assert not self.wrong(), f"seed {self.seed}: wrong {self.wrong()[:3]}"

    def count(self, test: Callable[[Record], bool]) -> int:
        return sum(map(test, self.records))

    @property
    def ok(self) -> int:
        return self.count(lambda record: record.ok)

    def unserved(self) -> set[str]:
        """Inputs for which no attempt brought an output, however often their clients tried."""
        return {r.ask.input for r in self.records} - {r.ask.input for r in self.records if r.ok}

    def failures(self, records: Iterable[Record] | None = None) -> list[Record]:
        """Those of them (of all) that were not served. But if the machine itself stood still for about as long as
        Redis may be silent, the two were away for each other, and whoever was refused then, or before they had
        found each other again, was refused rightly. So was who had no time left after such a time."""
        return [
            r for r in (self.records if records is None else records) if not r.ok and not self._excused(r)
        ]

    def _excused(self, record: Record) -> bool:
        if record.status == 504:
            return self.stalled(record.sent, record.done) > TOO_LONG
        return record.code == "STORE_UNAVAILABLE" and any(
            until - since > STANDSTILL and since < record.done and record.sent < until + AFTERWARDS
            for since, until in self.stalls
        )

    def longest_gap(self) -> float:
        """Seconds without any answer while there was load."""
        done = sorted(record.done for record in self.records if record.ok)
        return max((later - earlier for earlier, later in pairwise(done)), default=0.0)

    def of_kind(self, *kinds: str) -> list[Record]:
        return [record for record in self.records if record.ask.input.partition(":")[0] in kinds]

    def endings(self) -> str:
        """For people: how the requests ended, by status, code and message."""
        counts = Counter(
            f"{r.status} {r.code} {r.message}".strip() if r.status else _unanswered(r) for r in self.records
        )
        return ", ".join(f"{name} ×{count}" for name, count in sorted(counts.items()))

    def row(self, fault: str, figure: str) -> str:
        """Of the table that the long forms print."""
        return (
            f"{fault} | seed {self.seed} | sent {len(self.records)} | ok {self.ok} | lost {len(self.lost(GRACE))}"
            f" | duplicated {self.unasked} | wrong {len(self.wrong())} | {figure}"
        )


def _unanswered(record: Record) -> str:
    return "unsent" if record.unsent else "broken" if record.broken else "left"


def poisson(rate: float, seconds: float, random: Random) -> Iterator[float]:
    """Arrival times of a fixed schedule: independent, so many a second on average."""
    due = random.expovariate(rate)
    while due < seconds:
        yield due
        due += random.expovariate(rate)


def asks(dues: Iterable[float], *, timeout: float | None = REQUEST, kind: str = "good") -> list[Ask]:
    """`timeout`: None for clients that say nothing of it, so that the server's defaults hold."""
    limit, told = (REQUEST, False) if timeout is None else (timeout, True)
    return [Ask(due, f"{kind}:{number}", limit, told=told) for number, due in enumerate(dues)]


def like(schedule: Iterable[Ask], seconds: float = 10.0) -> list[Ask]:
    """The beginning of a schedule without what is bad in it, to warm up with."""
    return [
        replace(ask, input=f"warm:{number}", leaves_after=None)
        for number, ask in enumerate(schedule)
        if ask.due < seconds
    ]


@dataclass(slots=True, frozen=True)
class Execution:
    """One batch that a backend was given."""

    begun: float
    ended: float | None  # None: it never came to an end
    pid: int
    inputs: tuple[str, ...]


class Journal:
    """What the backends wrote down, each batch when it began and when it ended."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()

    def entries(self) -> list[dict[str, object]]:
        """But for a last line that is just being written."""
        return [json.loads(line) for line in self.path.read_text().splitlines(True) if line.endswith("\n")]

    def executions(self) -> list[Execution]:
        open_by_pid: dict[object, int] = {}
        found: list[Execution] = []
        for entry in self.entries():
            at, pid, inputs = entry["at"], entry["pid"], entry["inputs"]
            assert isinstance(at, float)
            assert isinstance(pid, int)
            assert isinstance(inputs, list)
            if entry["event"] == "begin":
                open_by_pid[pid] = len(found)
                found.append(Execution(at, None, pid, tuple(inputs)))
            else:
                place = open_by_pid.pop(pid)
                found[place] = Execution(found[place].begun, at, pid, found[place].inputs)
        return found

    def first_begun(self) -> dict[str, float]:
        """When each input was first given to a backend."""
        begun: dict[str, float] = {}
        for execution in self.executions():
            for text in execution.inputs:
                begun.setdefault(text, execution.begun)
        return begun


def percentile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
