"""What an attack cost the victim: its latency and failures, and the server's memory."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from history import History, Record, percentile

TIMES = 3.0  # the victim's calm p99: what it may be under attack
ROOM = 0.05  # seconds of p99 that are allowed in any case
GROWN = 1.1  # of the memory before: what may be left of an attack
# Bytes that may be left in any case: an allocator keeps pages, and a server meets some code for the first time.
KEPT = 16 * 2**20
MOST_LOG = 64 * 1024  # bytes that an attack may make a server write
MIB = 2**20
LATE = "p99"


@dataclass(frozen=True, slots=True)
class Phase:
    """What the victim saw in one stretch of its schedule."""

    seconds: list[float]  # from when each was due, for an open loop
    failures: list[Record]

    @classmethod
    def of(cls, history: History, begin: float, end: float) -> "Phase":
        records = [record for record in history.records if begin <= record.ask.due < end]
        wrong, failed = {record.id for record in history.wrong()}, history.failures(records)
        return cls(
            [_waited(history, record) for record in records],
            failed + [record for record in records if record.id in wrong and record not in failed],
        )

    @property
    def p99(self) -> float:
        return percentile(self.seconds, 0.99)


def _waited(history: History, record: Record) -> float:
    due = history.began + record.ask.due
    done = record.done or due + record.ask.timeout  # one that was never answered
    return max(0.0, done - due - history.stalled(due, done))


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes of the server's processes, its user code and its store."""

    before: int
    peak: int
    after: int
    keeps: int = 0  # bytes that it may keep besides

    @property
    def allowed(self) -> float:
        return allowed(self.before) + self.keeps


def allowed(before: int) -> float:
    return max(before * GROWN, before + KEPT)


@dataclass(frozen=True, slots=True)
class Verdict:
    attack: str
    stage: str
    calm: Phase
    during: Phase
    after: Phase
    memory: Memory
    dead: int = 0  # probes that were not answered as those of a living server
    log: Sequence[str] = ()  # what the server wrote meanwhile
    tally: Mapping[str, int] = field(default_factory=dict)  # what the attacker did
    cpu: float = 0.0  # seconds of a processor that the attacker took

    @property
    def limit(self) -> float:
        return max(TIMES * self.calm.p99, ROOM)

    @property
    def only_late(self) -> bool:
        """Whether nothing but time speaks against the server."""
        return bool(self.faults) and not self.faults_but_latency

    @property
    def faults_but_latency(self) -> list[str]:
        return [fault for fault in self.faults if not fault.startswith(LATE)]

    @property
    def logged(self) -> int:
        return sum(map(len, self.log))

    @property
    def faults(self) -> list[str]:
        """What the server did not withstand."""
        found = []
        for name, phase in (("during", self.during), ("after", self.after)):
            if phase.p99 > self.limit:
                found.append(f"{LATE} {name} is {_ms(phase.p99)}, above {_ms(self.limit)}")
            if phase.failures:
                some = phase.failures[0]
                found.append(
                    f"{len(phase.failures)} failures {name}, such as {some.status} {some.code}"
                    f" {some.done - some.sent:.3f} s after it was sent: {some.message}"
                )
        if self.dead:
            found.append(f"{self.dead} probes failed")
        if self.logged > MOST_LOG:
            found.append(f"{self.logged} bytes of log, such as {self.log[-1][:200]}")
        if self.memory.after > self.memory.allowed:
            found.append(f"memory is {_mib(self.memory.after)}, above {_mib(int(self.memory.allowed))}")
        return found

    def cells(self) -> list[str]:
        """For a table; what is at fault is bold."""
        failures = len(self.during.failures) + len(self.after.failures)
        asked = len(self.during.seconds) + len(self.after.seconds)
        late = max(self.during.p99, self.after.p99)
        return [
            _ms(self.calm.p99),
            _bold(_ms(late), late > self.limit),
            _bold(f"{failures} of {asked}", failures > 0),
            _bold(str(self.dead), self.dead > 0),
            f"{_mib(self.memory.before)} → {_mib(self.memory.peak)} → "
            + _bold(_mib(self.memory.after), self.memory.after > self.memory.allowed),
        ]

    def __str__(self) -> str:
        done = ", ".join(f"{name} ×{count}" for name, count in sorted(self.tally.items()))
        return " | ".join(
            [self.attack, self.stage, *self.cells(), f"{done}; {self.cpu:.1f} s of a processor"]
        )


def _bold(text: str, bad: bool) -> str:
    return f"**{text}**" if bad else text


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"


def _mib(size: int) -> str:
    return f"{size / MIB:.0f} MiB"
