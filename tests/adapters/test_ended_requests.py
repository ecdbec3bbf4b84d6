"""What became of a request: kept for a while, found by its id, and bounded."""

from penstock.adapters.observe import turned_away
from penstock.adapters.observe.ended import A_SECOND, LONGEST, Ended
from penstock.adapters.observe.timeline import MOST_NAMED, Clocks
from penstock.types import Accepted, Attempt, Execution, Failure, Outcome, Reason, Refusal, Reply, WorkerId


def replies(
    *names: str,
    failure: Failure | None = None,
    arrival: float = 1.0,
    model: str = "m",
    sealed: float | None = 1.25,
) -> list[Reply]:
    """The replies to the requests of one batch."""
    execution = None
    if failure is None:
        execution = Execution(
            WorkerId("m/0"), 1, len(names), 1.5, 0.25, sealed=sealed, sent=sealed, reason=Reason.DUE
        )
    outcome = Outcome.FAILED if failure else Outcome.SUCCESS
    return [
        Reply(
            Accepted("k", model, b'"in"', arrival, 3.0, 9.0, name, tenant="t"),
            outcome,
            b'"out"',
            failure,
            execution,
        )
        for name in names
    ]


class Clock:
    now = 2.0

    def __call__(self) -> float:
        return self.now


def memory(clock: Clock | None = None, most: int = 20_000) -> Ended:
    return Ended(Clocks(clock or Clock(), lambda: 1_000_000.0), most)


def test_a_request_is_found_with_how_it_ended_and_without_its_payload() -> None:
    ended = memory()
    ended.answered(replies("a", "b"), 2.0)
    ended.answered(replies("c", failure=Failure("BACKEND_FAILED", "it said no", "to 'in'")), 2.0)
    assert ended.find("b") == {
        "request_id": "b", "model": "m", "tenant": "t", "tier": 0, "status": "SUCCESS",
        "arrived": "1970-01-12T13:46:39.000Z", "ended": "1970-01-12T13:46:40.000Z",
        "latency_ms": 1000.0, "time_limit_ms": 8000.0, "queue_limit_ms": 2000.0,
        "timeline_ms": {
            "arrived": 0.0, "admitted": 0.0, "sealed": 250.0, "sent": 250.0, "started": 500.0, "ended": 750.0,
            "answered": 1000.0,
        },
        "queue_ms": 500.0, "inference_ms": 250.0, "batch_size": 2, "worker": "m/0", "cached": False,
        "reason": "due", "with": ["a"],
    }  # fmt: skip
    failed = ended.find("c")
    assert failed is not None
    assert failed["error"] == {"error": "BACKEND_FAILED", "message": "it said no"}
    assert failed["timeline_ms"] == {"arrived": 0.0, "admitted": 0.0, "answered": 1000.0}
    assert ended.find("d") is None


def test_each_attempt_that_failed_is_told_without_its_details() -> None:
    ended, again = memory(), replies("a")
    again[0].request.history = (Attempt(1.5, "BACKEND_CRASHED", "it died", "of 'in'", "m/1", 4, True),)
    ended.answered(again, 2.0)
    found = ended.find("a")
    assert found is not None
    assert found["attempts"] == [
        {
            "after_ms": 500.0,
            "error": "BACKEND_CRASHED",
            "message": "it died",
            "worker": "m/1",
            "batch_size": 4,
        }
    ]


def test_what_joined_a_batch_on_its_way_has_no_moment_before_it_arrived() -> None:
    ended = memory()
    ended.answered(replies("late", sealed=0.5), 2.0)
    found = ended.find("late")
    assert found is not None
    assert "sealed" not in found["timeline_ms"]
    assert found["timeline_ms"]["started"] == 500.0


def test_of_two_with_one_id_the_later_is_told() -> None:
    ended = memory()
    ended.answered(replies("a"), 1.0)
    ended.answered(replies("a", failure=Failure("INTERNAL", "no")), 2.0)
    found = ended.find("a")
    assert found is not None
    assert found["status"] == "FAILED"


def test_the_oldest_make_room_by_number_and_by_age() -> None:
    clock = Clock()
    ended = memory(clock, most=3)
    for name in "abcde":
        ended.answered(replies(name, model=name), 2.0)
    assert len(ended) == 3
    clock.now = 2.0 + LONGEST + 1
    assert ended.find("e") is None
    assert ended.slowest(9) == []
    ended.answered(replies("f"), clock.now)
    assert len(ended) == 1


def test_a_busy_server_notes_every_failure_and_some_of_the_successes() -> None:
    ended = memory()
    ended.answered(replies("slow", arrival=0.1), 2.0)
    ended.answered(replies(*map(str, range(A_SECOND))), 2.0)
    ended.answered(replies("one too many", arrival=1.2), 2.1)
    ended.answered(replies("with it", "and it") + replies("not well", failure=Failure("INTERNAL", "no")), 2.5)
    ended.answered(replies("a second later"), 3.0)
    assert ended.find("0")
    assert ended.find("and it") is None
    assert ended.find("not well")
    assert ended.find("a second later")
    assert len(ended) == A_SECOND + 3


def test_the_slowest_come_first_and_those_of_one_batch_once() -> None:
    ended = memory()
    for number in range(30):
        names = f"{number} first", f"{number} second"
        ended.answered(replies(*names, arrival=1.0 - number / 100) + replies("quick", arrival=1.9), 2.0)
    ended.answered(replies("another's", arrival=0.5, model="other"), 2.0)
    assert [each["request_id"] for each in ended.slowest(3)] == ["another's", "29 first", "28 first"]
    (slowest,) = ended.slowest(1, "m")
    assert slowest["latency_ms"] == 1290.0
    assert slowest["with"] == ["29 second"]
    assert ended.slowest(9, "unknown") == []


def test_the_slowest_of_each_ten_seconds_are_kept_on_a_busy_server() -> None:
    clock = Clock()
    ended = memory(clock, most=1)
    for second in range(0, 600, 10):
        clock.now = 10.0 + second
        for number in range(25):
            name = f"{second}-{number}"
            ended.answered(replies(name, arrival=clock.now - number / 100), clock.now)
    assert len(ended) == 1
    assert len(ended.slowest(9_999)) == 60 * 20
    assert ended.slowest(1)[0]["request_id"].endswith("-24")
    assert ended.find("0-24")  # `most` has forgotten it long ago
    assert ended.find("0-3") is None
    clock.now += 305.0
    assert len(ended.slowest(9_999)) == 30 * 20


def test_of_a_large_batch_some_are_named() -> None:
    ended = memory()
    ended.answered(replies(*map(str, range(100))), 2.0)
    for found in ended.find("7"), ended.slowest(1)[0]:
        assert found is not None
        assert (found["batch_size"], len(found["with"])) == (100, MOST_NAMED)
        assert found["request_id"] not in found["with"]


def test_a_refusal_is_told_until_a_request_of_that_id_is_let_in() -> None:
    ended = memory()
    why = Failure("SERVICE_OVERLOADED", "too long", retry_after=0.14, needed=0.34, had=0.2)
    ended.refused(Refusal("m", why.code, "a", "t", 1.5, why))
    assert ended.find("a") == {
        "request_id": "a", "model": "m", "tenant": "t", "status": "REFUSED",
        "arrived": "1970-01-12T13:46:39.500Z",
        "error": {
            "error": "SERVICE_OVERLOADED", "message": "too long",
            "retry_after_ms": 140.0, "needed_ms": 340.0, "had_ms": 200.0,
        },
    }  # fmt: skip
    ended.answered(replies("a"), 1.75)
    found = ended.find("a")
    assert found is not None
    assert found["status"] == "SUCCESS"
    ended.refused(Refusal("", "NOT_FOUND", "a", "", 1.9))
    assert ended.find("a") == {
        "request_id": "a",
        "status": "REFUSED",
        "arrived": "1970-01-12T13:46:39.900Z",
        "error": {"error": "NOT_FOUND"},
    }


def test_of_refusals_some_of_each_second_are_noted_and_the_last_are_kept() -> None:
    clock = Clock()
    ended = memory(clock)
    for second in range(2, 12):
        clock.now = float(second)
        for number in range(turned_away.A_SECOND + 1):
            ended.refused(Refusal("m", "SERVICE_OVERLOADED", f"{second}-{number}", "t", clock.now))
    last = turned_away.A_SECOND
    assert ended.find(f"11-{last - 1}")
    assert ended.find(f"11-{last}") is None
    assert ended.find(f"7-{last - 1}")
    assert ended.find(f"6-{last - 1}") is None
    clock.now += LONGEST + 1
    assert ended.find(f"11-{last - 1}") is None


def test_of_a_request_that_ran_out_of_time_is_told_when_the_next_batch_went() -> None:
    ended = memory()
    late = replies("late", failure=Failure("DEADLINE_EXCEEDED", "no worker was free"))
    late[0].outcome = Outcome.EXPIRED
    ended.answered(late, 1.2)
    found = ended.find("late")
    assert found is not None
    assert "next_batch_ms" not in found
    ended.answered(replies("another model's", model="other"), 2.0)
    ended.answered(replies("sent before", sealed=1.1), 2.0)
    ended.answered(replies("next", sealed=1.25), 2.0)
    ended.answered(replies("after that", sealed=1.5), 2.0)
    found = ended.find("late")
    assert found is not None
    assert found["next_batch_ms"] == {"sent": 250.0, "ended": 750.0}
