"""What happened in a run: what clients asked and were told, what backends executed, and which faults there were."""

from collections.abc import Callable
from dataclasses import dataclass, field

from penstock.types import Failure, Outcome, Reply

LATE_BY = 0.25  # seconds after its deadline that an answer may come


Member = tuple[str, bytes]  # a request as a batch has it: its tenant and its input


@dataclass(slots=True, eq=False)
class Asked:
    """One request of one client, and what came of it."""

    number: int
    how: str  # sync, task, or keyed
    gateway: str  # where it was asked; a task may be read anywhere
    tenant: str
    input: bytes
    sent: float
    limit: float  # seconds
    key: str = ""  # its Idempotency-Key
    task_id: str = ""
    accepted: float | None = None  # when it was
    deadline: float = 0.0  # once it is accepted
    refused: str = ""  # the code, if it was refused
    left: float | None = None  # when its client left or cancelled it
    broken: bool = False  # its gateway was killed while the client waited there
    replies: list[tuple[float, Reply]] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        if self.refused:
            return f"refused {self.refused}"
        if not self.replies:
            return "broken" if self.broken else "nothing"
        reply = self.replies[0][1]
        return reply.outcome.value if reply.failure is None else f"{reply.outcome.value} {reply.failure.code}"


@dataclass(slots=True, eq=False)
class Execution:
    """One batch at one backend."""

    began: float
    slot: str
    process: str
    inputs: tuple[bytes, ...]
    members: tuple[Member, ...]
    ahead: bool
    ended: float | None = None
    failed: str = ""


@dataclass(slots=True)
class Sent:
    """One batch that a batcher sent."""

    when: float
    batcher: str
    keys: tuple[str, ...]
    members: tuple[Member, ...]
    ahead: bool


class History:
    def __init__(self, clock: Callable[[], float]) -> None:
        self.clock = clock
        self.asked: list[Asked] = []
        self.executions: list[Execution] = []
        self.sent: list[Sent] = []
        self.lines: list[tuple[float, str]] = []
        self.wrong: list[str] = []  # what was seen to be wrong while it happened
        self.troubled: list[
            tuple[float, float, str]
        ] = []  # from, to, and which process (or "bus") had a fault

    def note(self, line: str) -> None:
        self.lines.append((self.clock(), line))

    def trouble(self, seconds: float, whose: str, what: str) -> None:
        """Note a fault that lasts so long."""
        now = self.clock()
        self.troubled.append((now, now + seconds, whose))
        self.note(f"{whose}: {what}" + (f" for {seconds:.3f} s" if seconds else ""))

    def stood_still(self, whose: str, before: float) -> float:
        """Until when a process was in trouble that began before a time."""
        return max((to for begin, to, who in self.troubled if who == whose and begin <= before), default=0.0)

    def told(self) -> list[str]:
        """The whole history in the order of time, for people."""
        lines = list(self.lines)
        for each in self.asked:
            words = f"#{each.number} {each.how} {each.input.decode()} of {each.tenant!r} at {each.gateway}"
            lines.append(
                (each.sent, f"{words}: asked, {each.limit:g} s" + (f" key {each.key}" if each.key else ""))
            )
            if each.refused:
                lines.append((each.sent, f"#{each.number} refused: {each.refused}"))
            if each.left is not None:
                lines.append((each.left, f"#{each.number} left by its client"))
            lines += [(when, f"#{each.number} answered: {_words(reply)}") for when, reply in each.replies]
        for done in self.executions:
            inputs = b" ".join(done.inputs).decode()
            lines.append((done.began, f"{done.slot} begins{' what came ahead' * done.ahead}: {inputs}"))
            if done.ended is not None:
                lines.append((done.ended, f"{done.slot} ends: {done.failed or 'well'}: {inputs}"))
        lines += [(each.when, f"{each.batcher} sends {' '.join(each.keys)}") for each in self.sent]
        return [f"{when:10.4f}  {line}" for when, line in sorted(lines, key=lambda line: line[0])]


def _words(reply: Reply) -> str:
    failure: Failure | None = reply.failure
    if reply.outcome is Outcome.SUCCESS:
        return f"{(reply.output or b'').decode()}"
    return f"{reply.outcome.value} {failure.code if failure else ''} {failure.message if failure else ''}"
