"""Says what a longer time limit would have changed for one request. `cli/explain.py` prints it.

The `Retry-After` of a request that was refused for want of time says how much later it could come and be let in. If
the limit grows by less than that, it would still have been refused. The server counts on at least nine tenths of a
longer time: if these are enough, it would have been let in; in between nobody can say. All else is a judgement of
the facts, and says so where it is no certainty.
"""

from penstock.explanation.facts import (
    CANCELLED,
    EXPIRED,
    SUCCESS,
    UNKNOWN,
    WAITING,
    Error,
    Facts,
    Milliseconds,
)
from penstock.explanation.words import length

COUNTED_ON = 0.9  # the part of a longer time that the server counts on, at least


def more_time(facts: Facts, more: Milliseconds) -> str:
    """Returns what a time limit longer by `more` would have changed."""
    with_it = f"With {length(more)} more"
    if facts.status == UNKNOWN:
        return f"{with_it} it could have waited longer; how it ended is not known."
    if facts.status in WAITING:
        return f"{with_it} it could wait longer; nobody knows yet whether it will have to."
    if facts.was_refused:
        return _refused(facts.error, more, with_it)
    if facts.status == EXPIRED:
        return _expired(facts, more, with_it)
    if facts.status == CANCELLED:
        return f"{with_it} nothing would have changed: its client did not want it any more."
    if facts.status == SUCCESS:
        return _answered(facts, with_it)
    # If little time was left when a request failed, that may be why it was not tried again.
    if facts.time_left < more:
        return f"{with_it} it could have been tried once more: {length(max(0.0, facts.time_left))} were left."
    return f"{with_it} nothing would have changed: it did not fail for want of time."


def _refused(error: Error | None, more: Milliseconds, with_it: str) -> str:
    if error is None or error.needed_ms is None or error.had_ms is None:
        return f"{with_it} it would have been refused all the same: it was not refused for want of time."
    late = error.retry_after_ms
    if late is None:  # its time was shorter than one batch takes
        if error.had_ms + more < error.needed_ms:
            return f"{with_it} it would still have been refused: one batch takes {length(error.needed_ms)}."
        return f"{with_it} its time would have been enough for one batch, if a worker was free."
    wait = f"the wait was expected to be {length(error.needed_ms)}"
    if late > more:
        return f"{with_it} it would still have been refused: {wait}, and it had {length(max(0.0, error.had_ms))}."
    if late > COUNTED_ON * more:
        return f"{with_it} it would have been let in or just not: {wait}."
    return f"{with_it} it would have been let in: {wait}."


def _expired(facts: Facts, more: Milliseconds, with_it: str) -> str:
    batch = facts.next_batch_ms
    if batch is None or facts.time_limit_ms is None:
        return f"{with_it} it would have waited longer; whether in vain is not known."
    when = f"the next batch of its model went {length(batch.sent)} after it arrived, and took"
    next_one = f"{when} {length(batch.ended - batch.sent)}"
    may_wait = facts.time_limit_ms if facts.queue_limit_ms is None else facts.queue_limit_ms
    if batch.sent <= may_wait + more and batch.ended <= facts.time_limit_ms + more:
        return f"{with_it} it would probably have been answered: {next_one}."
    return f"{with_it} it would still have been too late: {next_one}."


def _answered(facts: Facts, with_it: str) -> str:
    if facts.reason == "deadline":
        return f"{with_it} its batch could have waited longer, and been fuller: a deadline made it go when it did."
    left = "" if facts.time_left == float("inf") else f": {length(facts.time_left)} were left"
    return f"{with_it} nothing would have changed{left}."
