"""What became of a request: kept for a while, found by its id, and bounded."""

from penstock.adapters.observe.ended import A_SECOND, LONGEST, Ended
from penstock.types import Accepted, Execution, Failure, Outcome, Reply, WorkerId


def replies(*names: str, failure: Failure | None = None) -> list[Reply]:
    execution = None if failure else Execution(WorkerId("m/0"), 1, len(names), 1.5, 0.25)
    outcome = Outcome.FAILED if failure else Outcome.SUCCESS
    return [
        Reply(
            Accepted("k", "m", b'"in"', 1.0, 9.0, 9.0, name, tenant="t"),
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


def test_a_request_is_found_with_how_it_ended_and_without_its_payload() -> None:
    ended = Ended(Clock(), lambda: 1_000_000.0)
    ended.answered(replies("a", "b"), 2.0)
    ended.answered(replies("c", failure=Failure("BACKEND_FAILED", "it said no", "to 'in'")), 2.0)
    assert ended.find("b") == {
        "request_id": "b", "model": "m", "tenant": "t", "tier": 0, "status": "SUCCESS",
        "ended": "1970-01-12T13:46:40.000Z", "latency_ms": 1000.0, "queue_ms": 500.0, "inference_ms": 250.0,
        "batch_size": 2, "worker": "m/0", "cached": False,
    }  # fmt: skip
    failed = ended.find("c")
    assert failed is not None
    assert failed["error"] == {"error": "BACKEND_FAILED", "message": "it said no"}
    assert ended.find("d") is None


def test_of_two_with_one_id_the_later_is_told() -> None:
    ended = Ended(Clock(), lambda: 0.0)
    ended.answered(replies("a"), 1.0)
    ended.answered(replies("a", failure=Failure("INTERNAL", "no")), 2.0)
    found = ended.find("a")
    assert found is not None
    assert found["status"] == "FAILED"


def test_the_oldest_make_room_by_number_and_by_age() -> None:
    clock = Clock()
    ended = Ended(clock, lambda: 0.0, most=3)
    for name in "abcde":
        ended.answered(replies(name), 2.0)
    assert len(ended) == 3
    assert [name for name in "abcde" if ended.find(name)] == ["c", "d", "e"]
    clock.now = 2.0 + LONGEST + 1
    assert ended.find("e") is None
    ended.answered(replies("f"), clock.now)
    assert len(ended) == 1


def test_a_busy_server_notes_every_failure_and_some_of_the_successes() -> None:
    ended = Ended(Clock(), lambda: 0.0)
    ended.answered(replies(*map(str, range(A_SECOND))), 2.0)
    ended.answered(replies("one too many"), 2.5)
    ended.answered(replies("well") + replies("not well", failure=Failure("INTERNAL", "no")), 2.5)
    ended.answered(replies("a second later"), 3.0)
    assert ended.find("0")
    assert ended.find("one too many") is ended.find("well") is None
    assert ended.find("not well")
    assert ended.find("a second later")
    assert len(ended) == A_SECOND + 2
