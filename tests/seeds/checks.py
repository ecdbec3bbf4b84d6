"""What must hold in every run, whatever the seed. Each check returns what is wrong, in words."""

from collections import Counter
from collections.abc import Iterator
from math import inf

from penstock.types import Outcome
from penstock.words.messages import task_name
from seeds.backends import is_poison, output_of
from seeds.city import WALL, City
from seeds.far_bus import left_in, tasks_of
from seeds.history import LATE_BY, Asked, History, Member

# Seconds after the last fault. A request that has so long to go then, and is not to blame itself, is answered well.
RECOVERY = 8.0
# Seconds. A retry that could not end in time is not made; then the failure is the answer.
LONGEST_RETRY = 3.5
ROUNDED = 0.001  # seconds by which times may be rounded on their way
LONGEST_BATCH = 2.0  # seconds that a batch is under way and runs, at most, if its input is well
# What a request may be told that was never begun, at a gateway or at a batcher.
REFUSALS = {"SERVICE_OVERLOADED", "STORE_UNAVAILABLE", "SERVICE_DRAINING"}
BACKEND = {"BACKEND_FAILED", "BACKEND_CRASHED", "BACKEND_TIMEOUT", "BACKEND_UNAVAILABLE"}


def gather_tasks(city: City) -> None:
    """How each task ended, as its record says. Called at the end, before the history is checked."""
    books = tasks_of(city.records)
    for asked in city.history.asked:
        if asked.how == "task" and asked.accepted is not None:
            found = books.find(task_name(asked.tenant, asked.task_id))
            if found is None:
                city.history.wrong.append(f"#{asked.number} is an accepted task that nobody knows")
            elif found.answer is not None:
                asked.replies.append((found.changed - WALL, found.answer))


def is_open(city: City, asked: Asked) -> bool:
    """Whether a request was accepted and has no answer yet."""
    if asked.accepted is None or asked.broken:
        return False
    if asked.how != "task":
        return not asked.replies
    found = tasks_of(city.records).find(task_name(asked.tenant, asked.task_id))
    return found is not None and not found.over


def wrong_in(history: History, mended: float) -> Iterator[str]:
    """`mended`: when the last fault was over."""
    yield from history.wrong
    for asked in history.asked:
        yield from (f"#{asked.number} {words}" for words in _wrong_with(asked, history, mended))
    yield from _late_executions(history)


def _wrong_with(asked: Asked, history: History, mended: float) -> Iterator[str]:
    if asked.accepted is None:
        if asked.replies:
            yield "was answered although it was not accepted"
        return
    if not asked.replies:
        if not asked.broken:
            yield "was accepted and never answered"
        return
    if asked.how == "task":
        endings = {(reply.outcome, reply.output) for _, reply in asked.replies}
        if len(endings) > 1:
            yield f"is a task with {len(endings)} endings"
    elif len(asked.replies) > 1:
        yield f"was answered {len(asked.replies)} times"
    elif _is_late(asked, history):
        yield f"was answered {asked.replies[0][0] - asked.deadline:.3f} s after its deadline"
    yield from _wrong_answer(asked, history, mended)


def _is_late(asked: Asked, history: History) -> bool:
    when = asked.replies[0][0]
    excused = history.stood_still(asked.gateway, asked.deadline + LATE_BY)
    return when > max(asked.deadline, excused) + LATE_BY


def _wrong_answer(asked: Asked, history: History, mended: float) -> Iterator[str]:
    reply = asked.replies[0][1]
    if reply.outcome is Outcome.SUCCESS:
        if reply.output != output_of(asked.input, asked.tenant):
            yield f"was given {reply.output!r}"
        if is_poison(asked.input):
            yield "spoils its batches and has an output"
        return
    code = reply.failure.code if reply.failure is not None else ""
    if reply.outcome is Outcome.CANCELLED:
        if asked.left is None:
            yield "was cancelled by nobody"
    elif asked.left is not None or is_poison(asked.input) or code in REFUSALS:
        return
    elif code in BACKEND:
        had = (
            _earliest(asked, history) - asked.replies[0][0]
        )  # seconds in which it might have been tried again
        if had > LONGEST_RETRY and not _failed_alone(asked.input, history):
            yield f"is innocent and failed with {had:.3f} s to go: {reply.failure}"
    elif _earliest(asked, history) > mended + RECOVERY:
        yield f"had time and was not served: {reply.outcome} {code}"


def _earliest(asked: Asked, history: History) -> float:
    """The earliest deadline of all requests that may have shared its execution."""
    return min(
        (each.deadline for each in history.asked if (each.input, each.tenant) == (asked.input, asked.tenant)),
        default=asked.deadline,
    )


def _failed_alone(text: bytes, history: History) -> bool:
    """Whether an innocent input was alone in a batch that failed or met a fault, perhaps before the batch began.
    Then nobody could know better."""
    return any(
        each.inputs == (text,) * len(each.inputs)
        and (each.failed or _was_troubled(history, each.process, each.began))
        for each in history.executions
    ) or any(
        all(member[1] == text for member in sent.members)
        and any(_was_troubled(history, who, sent.when) for _, _, who in history.troubled)
        for sent in history.sent
    )


def _late_executions(history: History) -> Iterator[str]:
    deadlines: dict[Member, float] = {}  # until when somebody wants this executed
    for asked in history.asked:
        member = asked.tenant, asked.input
        deadlines[member] = max(deadlines.get(member, 0.0), asked.deadline)
    for sent in history.sent:
        for member in sent.members:
            if sent.when > deadlines[member] + ROUNDED:
                yield f"{sent.batcher} sent {member} {sent.when - deadlines[member]:.3f} s after its deadline"
    for done in history.executions:
        # A backend that failed again and again is asked once more for an input that was answered before.
        late = max([done.began - deadlines.get(member, inf) for member in done.members])
        if late > ROUNDED and not done.ahead and not _was_troubled(history, done.process, done.began):
            yield f"{done.slot} began {done.inputs} {late:.3f} s after a deadline"


def _was_troubled(history: History, process: str, when: float) -> bool:
    """Whether a batch that began then may have met a fault: of its worker, or of whoever sent it."""
    return any(
        begin - LONGEST_BATCH <= when <= to + LONGEST_BATCH
        for begin, to, who in history.troubled
        if who in (process, "bus") or who.startswith("batcher")
    )


def wrong_letters(city: City) -> Iterator[str]:
    asked_by_input = Counter(each.input for each in city.history.asked)
    for letter in city.records.letters._letters.values():
        if not asked_by_input[letter.input]:
            yield f"a dead letter of {letter.input!r}, which nobody sent"
        if not is_poison(letter.input) and not _failed_alone(letter.input, city.history):
            yield f"an innocent is a dead letter: {letter.input!r} {letter.code}"


def calm_is_served(asked: list[Asked]) -> Iterator[str]:
    """`asked`: what was asked when all was well again."""
    for each in asked:
        if each.outcome != "SUCCESS":
            yield f"#{each.number}, asked when all was well again, ended with: {each.outcome}"


def not_quiet(city: City) -> Iterator[str]:
    """What is still there although every request is over."""
    for shard, entries in left_in(city.shards).items():
        yield f"{entries} envelopes are left in shard {shard}"
    for house in city.houses:
        if not house.open:
            continue
        member, name = house.member, house.name
        if dead := list(member.dead_loops()):
            yield f"{name}: {dead}"
        if house.role == "gateway":
            if len(member.gateway.waiters):
                yield f"{name} has {len(member.gateway.waiters)} waiters"
            if member.publisher.unsent or any(member.publisher._withdrawn.values()):
                yield f"{name} has something to send"
            if member._keyed._pursuits or member._task_desk._held:
                yield f"{name} pursues a key or holds a task"
            if member.gateway.flights._alone or member.gateway.flights._adrift:
                yield f"{name} has flights"
        elif house.role == "batcher":
            yield from _batcher_not_quiet(name, member)
        elif member.unfinished or any(dock.busy for dock in member._slots.docks.values()):
            yield f"{name} has something in hand"


def _batcher_not_quiet(name: str, member: object) -> Iterator[str]:
    intake, dispatcher = member.intake, member.dispatcher  # type: ignore[attr-defined]
    if intake.in_hand or intake._entries:
        yield f"{name} has {list(intake.in_hand)} in hand, of {len(intake._entries)} envelopes"
    if dispatcher._queues or dispatcher._endings:
        yield f"{name} has something to tell"
    for pump in member._pumps.values():  # type: ignore[attr-defined]
        if pump.batcher.waiting:
            yield f"{name} has {pump.batcher.waiting} waiting"
        busy = [worker.id for worker in pump.batcher.fleet.workers.values() if worker.batch is not None]
        if busy:
            yield f"{name} thinks that {busy} run something"


def left_over(city: City) -> Iterator[str]:
    """Tasks of processes that have ended in order."""
    for house in city.houses:
        if not house.process.alive:
            continue
        if not house.over:
            yield f"{house.name} has not ended"
        for task in house.process.left():
            yield f"{house.name} has ended and left a task: {task.get_name()} {task.get_coro()}"
    yield from (f"the loop was told: {words}" for words in city.loop.mistakes)
