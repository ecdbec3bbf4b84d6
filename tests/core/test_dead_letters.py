"""Who is a dead letter, and who is innocent."""

import logging

import pytest

from penstock.core.batcher import Batcher
from penstock.core.dead_letters import is_dead, letter_of, size_of, within
from penstock.core.delivery import Delivery, RetryRules
from penstock.core.estimator import ServiceCurve
from penstock.core.queued import Queued, Sealed
from penstock.core.rules import BatchingRules
from penstock.runtime.dead_letter_words import MOST_LINES, say_so
from penstock.types import Failure, GivenUp, Outcome, Reason, Result, WorkerId

REJECTED = Failure("BACKEND_FAILED", "it said no", "to 'secret'", splittable=True)
CRASHED = Failure("BACKEND_CRASHED", "it died", splittable=True)
AWAY = Failure("BACKEND_UNAVAILABLE", "nobody is there")
ATTEMPTS = RetryRules().attempts
LATE = 3.0  # after which no request has time


def requests(number: int) -> list[Queued]:
    return [Queued(f"k{n}", "m", b'"secret"', 0.0, LATE, LATE, f"r{n}") for n in range(number)]


def batch_of(members: list[Queued], number: int = 1) -> Sealed:
    return Sealed(number, "m", b"", members, Reason.FULL, 0.0, avoid=WorkerId("m/0"))


def fail(members: list[Queued], *failures: Failure, at: float = 1.0) -> list[GivenUp]:
    """One after the other, all members together; the replies of the last."""
    replies: list[GivenUp] = []
    for number, failure in enumerate(failures):
        delivery = Delivery(RetryRules())
        replies = delivery.failed(batch_of(members, number), failure, ServiceCurve(64), 100, at)
        replies += delivery.expire(ServiceCurve(64), LATE + 1) if number == len(failures) - 1 else []
    return replies


def dead(replies: list[GivenUp]) -> list[bool]:
    return [is_dead(reply, ATTEMPTS) for reply in replies]


@pytest.mark.parametrize(
    ("size", "failures", "letters"),
    [
        (1, [REJECTED], True),  # alone, and refused by a backend that lives
        (1, [CRASHED], False),  # its worker was lost, and then it had no time
        (1, [CRASHED] * ATTEMPTS, True),
        (1, [AWAY] * ATTEMPTS, True),
        (4, [AWAY] * ATTEMPTS, True),  # all attempts are spent
        (4, [AWAY], False),
        (4, [REJECTED], False),  # who of them is to blame is not known
        (4, [CRASHED] * 5, False),  # shared batches with the bad one again and again
    ],
)
def test_only_who_failed_by_its_own_doing_or_spent_its_attempts_is_a_letter(
    size: int, failures: list[Failure], letters: bool
) -> None:
    replies = fail(requests(size), *failures)
    assert dead(replies) == [letters] * size


def test_who_was_served_after_a_failure_or_was_never_executed_is_not_given_up() -> None:
    batcher, [served, late] = Batcher(BatchingRules(model="m")), requests(2)
    batcher.worker_ready(WorkerId("m/0"))
    batcher.offer(served, 0.0)
    given_up: list[GivenUp] = []
    for now, outcome in ((0.5, AWAY), (1.0, Result([b'"done"']))):
        effects = batcher.step(now)
        given_up += effects.given_up
        [(worker, batch)] = effects.dispatches
        batcher.finished(worker, batch.id, outcome, now)
    batcher.worker_gone(WorkerId("m/0"), 1.0)
    batcher.offer(late, 1.0)
    effects = batcher.step(LATE + 1)
    assert [reply.outcome for reply in effects.replies] == [Outcome.SUCCESS, Outcome.EXPIRED]
    assert given_up + effects.given_up == []


def test_a_letter_lists_every_attempt_and_quotes_only_what_it_caused_alone() -> None:
    members = requests(2)
    fail(members, REJECTED)
    [reply] = fail(members[:1], AWAY, REJECTED)
    history = letter_of(reply, 1e9).history
    assert [(each.code, each.batch_size, each.worker) for each in history] == [
        ("BACKEND_FAILED", 2, "m/0"), ("BACKEND_UNAVAILABLE", 1, "m/0"), ("BACKEND_FAILED", 1, "m/0"),
    ]  # fmt: skip
    assert [each.details for each in history] == ["", "", "to 'secret'"]


def test_a_flood_of_letters_is_told_in_a_few_lines_without_their_inputs(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING)
    letters = [letter_of(reply, 1e9) for each in requests(100) for reply in fail([each], REJECTED)]
    say_so(letters)
    assert len(caplog.records) == MOST_LINES + 1
    assert vars(caplog.records[-1])["letters"] == 100 - MOST_LINES
    assert all("secret" not in str(vars(record)) for record in caplog.records)


def test_of_letters_that_take_too_many_bytes_the_first_are_kept() -> None:
    letters = [letter_of(reply, 1e9) for each in requests(3) for reply in fail([each], REJECTED)]
    size = size_of(letters[0])
    assert within(2 * size, letters) == letters[:2]
    assert within(2 * size - 1, letters) == letters[:1]
