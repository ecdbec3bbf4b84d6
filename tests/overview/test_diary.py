"""What a process has counted in the last seconds, and in each step of the last hour."""

from overview_kit import standing

from penstock.overview.counts import Counts
from penstock.overview.diary import RECENT, SPARE, STEP, STEPS, Diary


def sample(number: int) -> dict[str, Counts]:
    return {"embed": Counts({"SUCCESS": number})}


def test_recent_is_since_the_start_and_then_over_some_seconds() -> None:
    diary = Diary(100.0)
    assert diary.recent(sample(7), 100.5) == (0.5, sample(7))
    for second in range(1, 60):
        seconds, counts = diary.recent(sample(10 * second), 100.0 + second)
        assert counts["embed"].outcomes == {"SUCCESS": round(10 * seconds)}
        assert seconds == min(second, RECENT)


def test_looks_are_bounded_however_often_somebody_looks() -> None:
    diary = Diary(0.0)
    for look in range(10_000):
        diary.recent(sample(look), look / 100)
    assert len(diary._looks) <= RECENT / SPARE + 2


def test_one_look_after_a_while_goes_back_to_the_last_step() -> None:
    diary = Diary(0.0)
    for step in range(1, 5):
        diary.note(sample(100 * step), {}, step * STEP, step * STEP)
    assert diary.recent(sample(430), 43.0) == (13.0, {"embed": Counts({"SUCCESS": 130})})


def test_the_hour_has_what_was_new_in_each_step_and_forgets_what_is_older() -> None:
    diary = Diary(0.0)
    for step in range(1, STEPS + 11):
        diary.note(sample(step * step), {"embed": standing(5.0)}, step * STEP, 1000 + step * STEP)
    hour = [*diary.hour()]
    assert len(hour) == STEPS
    assert hour[-1].at == 1000 + (STEPS + 10) * STEP
    assert hour[-1].seconds == STEP
    moment = hour[-1].models["embed"]
    assert moment.counts.outcomes == {"SUCCESS": 2 * (STEPS + 10) - 1}
    assert (moment.capacity, moment.queue["paid"]) == (100.0, 0)


def test_a_step_in_which_nothing_happened_says_nothing() -> None:
    diary = Diary(0.0)
    diary.note(sample(1), {}, 10.0, 10.0)
    diary.note(sample(1), {}, 20.0, 20.0)
    assert [[*step.models] for step in diary.hour()] == [["embed"], []]
