import pytest
from benchmarks.wrk import Measurement, parse

REPORT = """Running 5s test @ http://127.0.0.1:8000/
  1 threads and 512 connections
Requests/sec:  20000.00
penstock-wrk {"requests": 100000, "microseconds": 5000000, "bytes": 9, "status": 400, \
"connect": 1, "read": 2, "write": 3, "timeout": 4}
"""


def test_only_good_answers_count_towards_the_rate() -> None:
    assert parse(REPORT).rate == 19_920


def test_bad_statuses_and_every_kind_of_socket_error_are_counted() -> None:
    measured = parse(REPORT)
    assert (measured.bad_status, measured.socket_errors, measured.errors) == (400, 10, 410)


def test_a_run_without_a_report_says_what_wrk_said() -> None:
    with pytest.raises(RuntimeError, match="unable to connect"):
        parse("", "unable to connect to 127.0.0.1\n")


def test_a_run_of_no_time_has_no_rate() -> None:
    assert Measurement(answers=0, seconds=0.0, bad_status=0, socket_errors=0).rate == 0.0
