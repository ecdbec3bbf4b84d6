"""Tells what happened to one request, step by step. `cli/explain.py` prints it."""

from collections.abc import Iterator
from typing import NamedTuple

from penstock.explanation.facts import (
    CANCELLED,
    EXPIRED,
    SUCCESS,
    UNKNOWN,
    WAITING,
    Facts,
    Milliseconds,
    Tried,
)
from penstock.explanation.words import REASONS, length, listed


class Step(NamedTuple):
    """One thing that happened."""

    after_ms: Milliseconds | None  # when, since the request arrived; None: nobody knows
    text: str


def story(facts: Facts) -> list[Step]:
    """Returns what happened, in order."""
    if facts.was_refused:
        return [Step(facts.timeline_ms.answered or 0.0, _refused(facts))]
    return [*_arrived(facts), *_tried(facts), *_run(facts), *_ended(facts)]


def headline(facts: Facts) -> str:
    """Returns in a line how the request stands."""
    of = f" of model {facts.model}" if facts.model else ""
    when = f", {length(facts.latency_ms)} after it arrived" if facts.latency_ms is not None else ""
    return f"{facts.request_id}{of}: {facts.status}{when}"


def _whose(facts: Facts) -> str:
    tier = "" if facts.tier is None or facts.tier == "" else f"tier {facts.tier}"
    known = [f"of tenant {facts.tenant}" if facts.tenant else "", f"in {tier}" if tier else ""]
    return "".join(f", {each}" for each in known if each)


def _refused(facts: Facts) -> str:
    error = facts.error
    said = f"It arrived{_whose(facts)}, and was refused at once"
    if error is None:
        return f"{said}."
    said = f"{said}: {error.message} ({error.error})." if error.message else f"{said} ({error.error})."
    if error.needed_ms is not None and error.had_ms is not None:
        needed, had = length(error.needed_ms), length(max(0.0, error.had_ms))
        said += (
            f" It needed {needed} and had {had}."
            if error.retry_after_ms is None
            else f" It was expected to wait {needed} for a worker, and could wait {had}."
        )
    return said


def _arrived(facts: Facts) -> Iterator[Step]:
    if not facts.arrived and facts.age_ms is None:
        return  # a dead letter does not know
    said = f"It arrived{_whose(facts)}, and was let in at once."
    if facts.time_limit_ms is not None:
        said += f" It had {length(facts.time_limit_ms)} until its deadline"
        if facts.queue_limit_ms is not None:
            said += f", of which it could wait {length(facts.queue_limit_ms)} in the queue"
        said += "."
    yield Step(0.0, said)


def _tried(facts: Facts) -> Iterator[Step]:
    for number, tried in enumerate(facts.attempts, 1):
        why = f"{tried.message} ({tried.error})" if tried.message else tried.error
        yield Step(tried.after_ms, f"Attempt {number} failed{_where(tried)}: {why}.")


def _where(tried: Tried) -> str:
    alone = "alone" if tried.batch_size == 1 else f"in a batch of {tried.batch_size}"
    at = f" at {tried.time}" if tried.time else ""
    return f"{at} on {tried.worker or 'its worker'}, {alone}"


def _run(facts: Facts) -> Iterator[Step]:
    times = facts.timeline_ms
    if facts.cached:
        yield Step(None, "Nothing was run for it: the answer to an identical request was remembered.")
        return
    if times.started is None:
        return
    if times.sealed is None:
        if times.started == 0.0:
            yield Step(0.0, "It joined an identical request, whose batch was on its way already.")
    else:
        yield Step(times.sealed, _sealed(facts, times.sealed))
    yield Step(times.started, f"{facts.worker or 'A worker'} began to run the batch.")
    if times.ended is not None:
        yield Step(times.ended, f"The batch was done, after {length(times.ended - times.started)}.")


def _sealed(facts: Facts, sealed: Milliseconds) -> str:
    before = facts.attempts[-1].after_ms if facts.attempts else None
    since = " after that" if before is not None else ""
    waited = sealed - (before or 0.0)
    size = "a batch of its own" if facts.batch_size == 1 else f"a batch of {facts.batch_size}"
    said = f"It had waited {length(max(0.0, waited))}{since}; then {size} went"
    if facts.reason in REASONS:
        said += f", {REASONS[facts.reason]} ({facts.reason})"
    if facts.batch_size > 1:
        said += f". With it: {listed(facts.mates, facts.batch_size - 1)}"
    return f"{said}."


def _ended(facts: Facts) -> Iterator[Step]:
    if facts.status in WAITING:
        waits = "still waits for a worker" if facts.status == WAITING[0] else "is on a worker now"
        failed = f" {facts.failed_executions} batches with it have failed." if facts.failed_executions else ""
        left = f" It has {length(facts.deadline_in_ms)} left." if facts.deadline_in_ms is not None else ""
        yield Step(facts.age_ms, f"It {waits}.{failed}{left}")
        return
    if facts.status == UNKNOWN:
        yield Step(None, "How it ended is not told: the spans of its batch are not there.")
        return
    at, error = facts.timeline_ms.answered, facts.error
    why = (
        "" if error is None else f": {error.message} ({error.error})" if error.message else f": {error.error}"
    )
    if facts.status == SUCCESS:
        yield Step(at, "It was answered.")
    elif facts.status == EXPIRED:
        yield Step(at, f"Its time was up{why}.")
    elif facts.status == CANCELLED:
        yield Step(at, f"It was withdrawn{why}.")
    else:
        yield Step(at, f"It was answered with its failure{why}.")
