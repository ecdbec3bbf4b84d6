"""What a longer time limit would have changed."""

from collections.abc import Mapping

import pytest

from penstock.explanation.facts import Facts, of_admin_plane
from penstock.explanation.more_time import more_time
from penstock.explanation.words import length, listed

MORE = 100.0


def changed(said: Mapping[str, object], more: float = MORE) -> str:
    return more_time(of_admin_plane({"request_id": "r1", **said}), more)


def refused(late: float | None, needed: float = 340.0, had: float = 200.0) -> dict[str, object]:
    error = {"error": "SERVICE_OVERLOADED", "retry_after_ms": late, "needed_ms": needed, "had_ms": had}
    return {"status": "REFUSED", "error": error}


@pytest.mark.parametrize(
    ("late", "then"),
    [
        (140.0, "it would still have been refused: the wait was expected to be 340 ms, and it had 200 ms."),
        (95.0, "it would have been let in or just not: the wait was expected to be 340 ms."),
        (90.0, "it would have been let in: the wait was expected to be 340 ms."),
    ],
)
def test_a_refusal_for_want_of_time_is_reckoned_by_how_late_it_came(late: float, then: str) -> None:
    assert changed(refused(late)) == f"With 100 ms more {then}"


def test_a_time_shorter_than_one_batch_must_become_longer_than_it() -> None:
    assert "still have been refused: one batch takes 340 ms" in changed(refused(None))
    assert "enough for one batch" in changed(refused(None), 140.0)


def test_who_was_refused_for_another_reason_would_have_been_refused_all_the_same() -> None:
    full = {"error": "SERVICE_OVERLOADED", "message": "the queue is full", "retry_after_ms": 50.0}
    for said in (
        {"status": "REFUSED", "error": full},
        {"status": "FAILED", "error": full},
        {"status": "REFUSED"},
    ):
        assert "refused all the same" in changed(said)


def test_what_ran_out_of_time_is_judged_by_the_next_batch() -> None:
    late: dict[str, object] = {"status": "EXPIRED", "time_limit_ms": 200.0, "latency_ms": 200.0}
    assert "whether in vain is not known" in changed(late)
    soon = {"sent": 210.0, "ended": 290.0}
    assert changed({**late, "next_batch_ms": soon}) == (
        "With 100 ms more it would probably have been answered: the next batch of its model went 210 ms after it"
        " arrived, and took 80.0 ms."
    )
    assert "still have been too late" in changed({**late, "next_batch_ms": {"sent": 210.0, "ended": 301.0}})
    # Where the wait in the queue has a limit of its own, that must suffice too.
    queued = {**late, "time_limit_ms": 9_000.0, "queue_limit_ms": 100.0}
    assert "still have been too late" in changed({**queued, "next_batch_ms": soon})
    assert "probably have been answered" in changed({**queued, "next_batch_ms": soon}, 110.0)


def test_what_was_answered_in_time_needed_no_more() -> None:
    well: dict[str, object] = {
        "status": "SUCCESS",
        "time_limit_ms": 1000.0,
        "latency_ms": 250.0,
        "reason": "due",
    }
    assert changed(well) == "With 100 ms more nothing would have changed: 750 ms were left."
    assert changed({"status": "SUCCESS"}) == "With 100 ms more nothing would have changed."
    assert "could have waited longer, and been fuller" in changed({**well, "reason": "deadline"})


def test_what_failed_could_have_been_tried_again_only_if_time_was_short() -> None:
    error = {"error": "BACKEND_FAILED", "message": "no"}
    failed: dict[str, object] = {
        "status": "FAILED",
        "time_limit_ms": 1000.0,
        "latency_ms": 950.0,
        "error": error,
    }
    assert "tried once more: 50.0 ms were left" in changed(failed)
    assert "did not fail for want of time" in changed({**failed, "latency_ms": 100.0})


def test_nobody_knows_of_what_still_waits_and_who_left_wants_nothing() -> None:
    assert "nobody knows yet" in changed({"status": "PENDING"})
    assert "did not want it any more" in changed({"status": "CANCELLED"})


def test_facts_that_are_not_known_are_not_made_up() -> None:
    assert Facts(request_id="r1", status="SUCCESS").time_left == float("inf")


def test_lengths_and_lists_are_written_as_people_do() -> None:
    assert [length(ms) for ms in (0.04, 12.34, 112.4, 2345.0, 123_456.0)] == [
        "0.0 ms",
        "12.3 ms",
        "112 ms",
        "2.35 s",
        "123 s",
    ]
    assert listed(["a"], 1) == "a"
    assert listed(["a", "b"], 2) == "a and b"
    assert listed([], 1) == "1 other"
    assert listed([], 3) == "3 others"
