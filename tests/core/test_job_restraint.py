"""When lines of jobs may go, so that nobody else is delayed."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.job_restraint import Restraint, RestraintRules
from penstock.jobs import Slack

ONE_IDLE, ONE_BUSY = Slack(0, 1, 1), Slack(0, 0, 1)
RULES = RestraintRules(in_flight=4, in_the_way=0.25, quiet=10.0)


def test_few_are_in_flight_and_a_large_line_goes_alone() -> None:
    restraint = Restraint(RULES)
    for _ in range(4):
        assert restraint.may_start(1, ONE_IDLE, 0.0)
        restraint.started(1, 0.0)
    assert not restraint.may_start(1, ONE_IDLE, 0.0)
    for _ in range(4):
        restraint.ended(1, 1.0)
    assert restraint.may_start(100, ONE_IDLE, 1.0)
    restraint.started(100, 1.0)
    assert not restraint.may_start(1, ONE_IDLE, 1.0)


def test_none_goes_while_anybody_else_waits_or_no_worker_is_idle() -> None:
    restraint = Restraint(RULES)
    assert not restraint.may_start(1, Slack(1, 1, 1), 0.0)
    assert not restraint.may_start(1, ONE_BUSY, 0.0)
    assert not restraint.may_start(1, Slack(0, 0, 0), 0.0)
    restraint.started(1, 0.0)
    assert restraint.may_start(1, Slack(1, 1, 1), 0.0), "what waits is a line itself"
    assert not restraint.may_start(1, Slack(2, 1, 1), 0.0)


def test_one_of_several_workers_stays_idle() -> None:
    restraint = Restraint(RULES)
    assert restraint.may_start(1, Slack(0, 2, 4), 0.0)
    restraint.started(1, 0.0)
    assert not restraint.may_start(1, Slack(0, 1, 4), 0.0)
    restraint.other_answered(0.5, 0.5, 0.6)
    restraint.ended(1, 1.0)
    assert restraint.may_start(1, Slack(0, 2, 4), 1.0), "whoever came in between had a worker"
    restraint.started(1, 1.0)
    restraint.other_answered(1.5, 1.6, 1.7)
    restraint.ended(1, 2.0)
    assert not restraint.may_start(1, Slack(0, 2, 4), 2.0), "whoever came in between had to wait"


def test_on_the_only_worker_a_meeting_must_be_earned_by_others() -> None:
    restraint = Restraint(RULES)
    restraint.started(1, 0.0)
    restraint.other_answered(0.5, 1.0, 1.0)  # it waited for the line
    restraint.ended(1, 1.0)
    for n in range(3):
        assert not restraint.may_start(1, ONE_IDLE, 2.0 + n)
        restraint.other_answered(1.5 + n, 2.0 + n, 2.0 + n)
    assert not restraint.may_start(1, ONE_IDLE, 5.0)
    restraint.other_answered(5.5, 6.0, 6.0)
    assert restraint.may_start(1, ONE_IDLE, 6.0)


def test_who_met_lines_may_be_answered_after_them() -> None:
    restraint = Restraint(RULES)
    restraint.started(1, 1.0)
    restraint.ended(1, 2.0)
    restraint.other_answered(1.5, 3.0, 3.0)
    assert not restraint.may_start(1, ONE_IDLE, 3.0)
    before = Restraint(RULES)
    before.started(1, 1.0)
    before.ended(1, 2.0)
    before.other_answered(0.5, 3.0, 3.0)
    assert before.may_start(1, ONE_IDLE, 3.0), "it came before the line"


def test_after_a_quiet_time_a_meeting_is_granted() -> None:
    restraint = Restraint(RULES)
    restraint.started(1, 0.0)
    restraint.other_answered(0.5, 1.0, 1.0)
    restraint.ended(1, 1.0)
    assert not restraint.may_start(1, ONE_IDLE, 10.9)
    assert restraint.may_start(1, ONE_IDLE, 11.0)


@given(st.lists(st.tuples(st.sampled_from("oqt"), st.floats(0.0, 0.03)), max_size=300))
def test_however_they_come_few_others_meet_lines(events: list[tuple[str, float]]) -> None:
    """At most their share, and those that met the last volley. Nobody is quiet for long here."""
    restraint, now, others, met, began = Restraint(RULES), 0.0, 0, 0, None
    largest = 0
    for kind, wait in events:
        now += wait
        if kind == "t" and began is None and restraint.may_start(1, ONE_IDLE, now):
            restraint.started(1, now)
            began, largest = now, 0
        elif kind == "q" and began is not None:
            restraint.ended(1, now)
            began = None
        elif kind == "o":
            others += 1
            met += began is not None
            largest += began is not None
            restraint.other_answered(now, now + 1.0, now)
    assert met <= RULES.in_the_way * others + largest + 1
