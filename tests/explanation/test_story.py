"""What happened to a request, as it is told."""

from collections.abc import Mapping

from penstock.explanation.facts import Facts, of_admin_plane, of_dead_letter, of_ledger
from penstock.explanation.story import headline, story

# As the admin plane tells of a request that went well.
WELL = {
    "request_id": "r1", "model": "embed", "tenant": "acme", "tier": 1, "status": "SUCCESS",
    "arrived": "2026-11-19T16:00:00.000Z", "ended": "2026-11-19T16:00:00.113Z", "latency_ms": 112.5,
    "time_limit_ms": 10_000.0, "queue_limit_ms": 2_000.0,
    "timeline_ms": {
        "arrived": 0.0, "admitted": 0.0, "sealed": 12.1, "sent": 12.1, "started": 12.1, "ended": 112.4,
        "answered": 112.5,
    },
    "queue_ms": 12.1, "inference_ms": 100.3, "batch_size": 4, "worker": "embed/0", "cached": False, "reason": "due",
    "with": ["r2", "r3"],
}  # fmt: skip
WAITED = {"arrived": 0.0, "admitted": 0.0, "answered": 50.0}


def told(said: Mapping[str, object]) -> list[tuple[float | None, str]]:
    return [(step.after_ms, step.text) for step in story(of_admin_plane(said))]


def texts(said: Mapping[str, object]) -> str:
    return " ".join(text for _, text in told(said))


def test_a_request_that_went_well() -> None:
    assert headline(of_admin_plane(WELL)) == "r1 of model embed: SUCCESS, 112 ms after it arrived"
    assert told(WELL) == [
        (
            0.0,
            "It arrived, of tenant acme, in tier 1, and was let in at once. It had 10 s until its deadline, of"
            " which it could wait 2 s in the queue.",
        ),
        (
            12.1,
            "It had waited 12.1 ms; then a batch of 4 went, because its turn had come: the pace, or the longest"
            " wait (due). With it: r2, r3 and 1 more.",
        ),
        (12.1, "embed/0 began to run the batch."),
        (112.4, "The batch was done, after 100 ms."),
        (112.5, "It was answered."),
    ]


def test_a_request_that_was_refused_at_once_for_want_of_time_or_for_another_reason() -> None:
    late: dict[str, object] = {
        "error": "SERVICE_OVERLOADED",
        "message": "the queue is too long",
        "retry_after_ms": 140.0,
    }
    refused: dict[str, object] = {"request_id": "r1", "status": "REFUSED", "tenant": "acme", "error": late}
    assert told(refused) == [
        (
            0.0,
            "It arrived, of tenant acme, and was refused at once: the queue is too long (SERVICE_OVERLOADED).",
        )
    ]
    late |= {"needed_ms": 340.0, "had_ms": 200.0}
    assert "It was expected to wait 340 ms for a worker, and could wait 200 ms." in texts(refused)
    del late["retry_after_ms"]
    assert "It needed 340 ms and had 200 ms." in texts(refused)
    refused["error"] = {"error": "UNAUTHORIZED"}
    assert texts(refused) == "It arrived, of tenant acme, and was refused at once (UNAUTHORIZED)."
    assert story(Facts(request_id="r1", status="REFUSED"))[0].text == "It arrived, and was refused at once."


def test_what_a_batcher_refused_after_its_gateway_had_taken_it_was_refused() -> None:
    error = {"error": "SERVICE_OVERLOADED", "message": "the queue is full"}
    said = {**WELL, "status": "FAILED", "timeline_ms": {**WAITED, "answered": 1.5}, "error": error}
    [(after, text)] = told(said)
    assert after == 1.5
    assert "refused at once: the queue is full" in text


def test_attempts_come_before_the_batch_that_answered() -> None:
    attempts = [
        {
            "after_ms": 50.0,
            "error": "BACKEND_CRASHED",
            "message": "it died",
            "worker": "m/0",
            "batch_size": 8,
        },
        {
            "after_ms": 90.0,
            "error": "BACKEND_FAILED",
            "message": "it said no",
            "worker": "m/1",
            "batch_size": 1,
        },
    ]
    said = {
        **WELL,
        "attempts": attempts,
        "batch_size": 1,
        "with": [],
        "reason": "",
        "tenant": "",
        "tier": None,
    }
    said["timeline_ms"] = {"sealed": 95.0, "started": 95.0, "ended": 110.0, "answered": 110.0}
    assert told(said)[1:4] == [
        (50.0, "Attempt 1 failed on m/0, in a batch of 8: it died (BACKEND_CRASHED)."),
        (90.0, "Attempt 2 failed on m/1, alone: it said no (BACKEND_FAILED)."),
        (95.0, "It had waited 5.0 ms after that; then a batch of its own went."),
    ]


def test_an_answer_that_was_remembered_or_shared() -> None:
    assert "Nothing was run for it" in texts({**WELL, "cached": True})
    joined = {"started": 0.0, "ended": 80.0, "answered": 80.0}
    assert told({**WELL, "timeline_ms": joined})[1:3] == [
        (0.0, "It joined an identical request, whose batch was on its way already."),
        (0.0, "embed/0 began to run the batch."),
    ]
    # An older batcher does not say when it sealed a batch.
    unsaid = texts({**WELL, "timeline_ms": {"started": 30.0, "answered": 80.0}, "worker": ""})
    assert "A worker began to run the batch." in unsaid
    assert "joined" not in unsaid


def test_each_ending_has_its_words() -> None:
    error = {"error": "DEADLINE_EXCEEDED", "message": "no worker was free"}
    said = {**WELL, "timeline_ms": WAITED, "error": error}
    assert told({**said, "status": "EXPIRED"})[-1] == (
        50.0,
        "Its time was up: no worker was free (DEADLINE_EXCEEDED).",
    )
    assert told({**said, "status": "CANCELLED"})[-1][1].startswith("It was withdrawn: no worker")
    assert told({**said, "status": "FAILED"})[-1][1].startswith("It was answered with its failure: no worker")


def test_a_request_that_waits_says_so() -> None:
    said: dict[str, object] = {
        "request_id": "r1",
        "status": "PENDING",
        "age_ms": 50.0,
        "deadline_in_ms": 950.0,
    }
    assert told(said) == [
        (0.0, "It arrived, and was let in at once."),
        (50.0, "It still waits for a worker. It has 950 ms left."),
    ]
    said |= {"status": "PROCESSING", "failed_executions": 2}
    assert told(said)[-1][1] == "It is on a worker now. 2 batches with it have failed. It has 950 ms left."
    assert headline(of_admin_plane(said)) == "r1: PROCESSING"


def test_a_dead_letter_tells_each_attempt_and_when() -> None:
    attempt = {
        "time": "2026-11-19T16:00:00.000Z", "error": "BACKEND_FAILED", "message": "it said no", "details": "of 'x'",
        "worker": "m/0", "batch_size": 1,
    }  # fmt: skip
    letter = {
        "id": "7", "request_id": "r1", "time": "2026-11-19T16:00:01.000Z", "error": "BACKEND_FAILED",
        "message": "it said no", "model": "m", "history": [attempt], "input": "secret", "tier": 1,
    }  # fmt: skip
    assert [step.text for step in story(of_dead_letter(letter))] == [
        "Attempt 1 failed at 2026-11-19T16:00:00.000Z on m/0, alone: it said no (BACKEND_FAILED).",
        "It was answered with its failure: it said no (BACKEND_FAILED).",
    ]


def test_a_row_of_the_ledger_tells_when_and_how_it_ended() -> None:
    row = ("r1", "m", "acme", "paid")
    facts = of_ledger(
        *row, "DEADLINE_EXCEEDED", "2026-11-19T16:00:00.000Z", "2026-11-19T16:00:01.000Z", 1000.0
    )
    assert [tuple(step) for step in story(facts)] == [
        (0.0, "It arrived, of tenant acme, in tier paid, and was let in at once."),
        (1000.0, "It was answered with its failure: DEADLINE_EXCEEDED."),
    ]
    well = of_ledger(*row, "SUCCESS", "", "", 1000.0)
    assert [step.text for step in story(well)] == ["It was answered."]
