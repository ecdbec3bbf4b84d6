"""Lines that a client can bring about as often as it likes are written once a second."""

import logging

from penstock.logs import FewASecond


def line(text: str, error: type[Exception] | None = None) -> logging.LogRecord:
    caught = None if error is None else (error, error(), None)
    return logging.LogRecord("penstock.doors", logging.ERROR, "", 0, text, None, caught)


def test_of_each_kind_one_line_a_second_is_let_through_and_the_next_says_how_many_were_not() -> None:
    now = [0.0]
    calm = FewASecond(now=lambda: now[0])
    assert [calm.filter(line("failed", ValueError)) for _ in range(3)] == [True, False, False]
    assert calm.filter(line("failed", KeyError))
    assert calm.filter(line("another"))
    now[0] = 1.0
    later = line("failed", ValueError)
    assert calm.filter(later)
    assert vars(later)["left_out"] == 2
    now[0] = 2.0
    alone = line("failed", ValueError)
    assert calm.filter(alone)
    assert "left_out" not in vars(alone)


def test_kinds_that_are_new_each_time_are_forgotten_again() -> None:
    calm = FewASecond(now=lambda: 0.0)
    assert all(calm.filter(line(f"{number}")) for number in range(5000))
    assert len(calm._kinds) <= 1000
