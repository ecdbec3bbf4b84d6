"""When a request is sent again: decided without a clock."""

import pytest

from penstock.client.errors import Busy, Failed, NoContact
from penstock.client.pace import GROWTH, LESS, Pace
from penstock.client.retries import Budget, Retries

RULES = Retries(attempts=4, first_wait=0.1, longest_wait=1.0)
AWAY = NoContact("away", again=True)


def test_waits_double_up_to_the_longest_and_are_cut_at_random() -> None:
    patient = Retries(attempts=100, first_wait=0.1, longest_wait=1.0)
    assert [patient.wait(AWAY, tries, None, 0.0) for tries in (1, 2, 3, 4, 5, 50)] == [
        0.1,
        0.2,
        0.4,
        0.8,
        1.0,
        1.0,
    ]
    assert patient.wait(AWAY, 1, None, 1.0) == 0.05


def test_retry_after_is_obeyed_and_never_undercut() -> None:
    for luck in (0.0, 0.5, 1.0):
        wait = RULES.wait(Busy("wait", retry_after=7.0, again=True), 1, None, luck)
        assert wait is not None
        assert 7.0 <= wait < 7.71


def test_what_would_be_the_same_again_is_not_tried_again() -> None:
    assert RULES.wait(Failed("the function raised", code="BACKEND_FAILED"), 1, None, 0.5) is None


def test_it_gives_up_after_the_last_attempt() -> None:
    assert RULES.wait(AWAY, 3, None, 0.5) is not None
    assert RULES.wait(AWAY, 4, None, 0.5) is None


def test_it_does_not_wait_for_its_own_deadline() -> None:
    assert RULES.wait(AWAY, 1, 0.05, 0.0) is None
    assert RULES.wait(AWAY, 1, 0.2, 0.0) == 0.1


def test_the_budget_allows_a_share_of_the_requests_and_a_reserve() -> None:
    budget = Budget(Retries(budget=0.25, reserve=2.0))
    assert [budget.take() for _ in range(3)] == [True, True, False]
    for _ in range(4):
        budget.sent()
    assert [budget.take() for _ in range(2)] == [True, False]


def test_the_budget_saves_up_no_more_than_its_reserve() -> None:
    budget = Budget(Retries(budget=1.0, reserve=2.0))
    for _ in range(100):
        budget.sent()
    assert [budget.take() for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize("wrong", [{"attempts": 0}, {"budget": -1.0}, {"first_wait": -0.1}])
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        Retries(**wrong)


def test_after_a_refusal_nothing_goes_until_the_server_wants_it_and_then_less() -> None:
    pace = Pace(100)
    assert pace.allows(99, 0.0)
    assert not pace.allows(100, 0.0)
    pace.refused(2.0, 10.0)
    assert not pace.allows(0, 11.9)
    assert pace.allows(0, 12.0)
    assert pace.limit == 100 * LESS


def test_refusals_of_one_crowd_count_once() -> None:
    pace = Pace(100)
    for moment in (0.0, 0.1, 0.2):
        pace.refused(1.0, moment)
    assert pace.limit == 100 * LESS
    assert pace.until == 1.2


def test_answers_bring_the_pace_back_and_never_beyond_what_was_asked_for() -> None:
    pace = Pace(10)
    pace.refused(0.0, 0.0)
    before = pace.limit
    pace.answered()
    assert pace.limit == before + GROWTH / before
    for _ in range(100):
        pace.answered()
    assert pace.limit == 10.0


def test_one_request_may_always_go() -> None:
    pace = Pace(4)
    for moment in range(100):
        pace.refused(0.0, float(moment))
    assert pace.limit == 1.0
    assert pace.allows(0, 100.0)
