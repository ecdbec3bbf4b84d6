"""The bookkeeping of a map, as a machine that hypothesis drives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import Answer, Done, InferenceError, NotDone, SomeFailed
from penstock.client.course import AHEAD, Course


def done(index: int) -> Done[str, int]:
    return Done(index, f"input {index}", Answer(index), 0.1)


def not_done(index: int) -> NotDone[str]:
    return NotDone(index, f"input {index}", InferenceError("no", code="NO"), 0.1)


@given(
    count=st.integers(0, 60),
    concurrency=st.integers(1, 4),
    ordered=st.booleans(),
    random=st.randoms(use_true_random=False),
)
def test_each_input_ends_once_within_the_bound_and_in_order_if_asked(
    count: int, concurrency: int, ordered: bool, random: "st.DataObject"
) -> None:
    course: Course[str, int] = Course(concurrency, ordered=ordered)
    waiting: list[int] = []
    taken: list[int] = []
    while not course.is_over:
        for _ in range(course.wants):
            if course.handed == count:
                course.exhausted = True
                break
            waiting.append(course.hand_out())
        assert course.handed - course.taken <= AHEAD * concurrency
        if waiting:
            index = waiting.pop(random.randrange(len(waiting)))  # type: ignore[attr-defined]
            course.came(done(index) if index % 3 else not_done(index))
        while course.has_ready:
            taken.append(course.take().index)
    good = [index for index in range(count) if index % 3]
    assert sorted(taken) == good
    assert sorted(each.index for each in course.failures) == [
        index for index in range(count) if not index % 3
    ]
    assert (course.done, course.failed) == (len(good), count - len(good))
    if ordered:
        assert taken == good


def test_failures_can_be_told_instead_of_kept() -> None:
    told: list[NotDone[str]] = []
    course: Course[str, int] = Course(1, ordered=False, on_failure=told.append)
    course.came(not_done(course.hand_out()))
    assert [each.index for each in told] == [0]
    assert course.failures == []
    course.check()


def test_what_has_failed_is_told_with_the_first_of_them() -> None:
    course: Course[str, int] = Course(1, ordered=True)
    course.came(not_done(course.hand_out()))
    with pytest.raises(SomeFailed, match=r"1 of 1 inputs failed; the first is input 0: NO: no"):
        course.check()


def test_a_concurrency_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        Course(0, ordered=True)
