"""What becomes of a job, event by event."""

import pytest
from msgspec.structs import replace

from penstock.core.job_states import Next, cancelled, checked, closed, moved, next_for, ticked
from penstock.jobs import OVER, Job, JobStatus, Mistake, job_of_line, line_name

JOB = Job(
    id="batch_" + "a" * 24, tenant="t", endpoint="/v1/embeddings", input_file="file", created=0, expires=100
)
RUNNING = checked(JOB, 3, [], 1.0)


def test_a_job_whose_lines_are_right_runs_to_its_end() -> None:
    assert next_for(JOB, 0, 0, 0.0) is Next.CHECK
    assert (RUNNING.status, RUNNING.total, RUNNING.since) == (JobStatus.IN_PROGRESS, 3, {"in_progress": 1})
    assert next_for(RUNNING, 0, 2, 2.0) is Next.RUN
    assert ticked(RUNNING, 2, 1, 3.0) is RUNNING
    assert ticked(RUNNING, 2, 0, 3.0) is RUNNING
    done = ticked(RUNNING, 3, 0, 4.0)
    assert (done.status, done.late) == (JobStatus.FINALIZING, False)
    assert next_for(done, 3, 0, 4.0) is Next.CLOSE
    over = closed(done, 5.0)
    assert (over.status, over.is_over) == (JobStatus.COMPLETED, True)
    assert next_for(over, 3, 0, 6.0) is Next.NOTHING
    assert over.since == {"in_progress": 1, "finalizing": 4, "completed": 5}


def test_a_job_whose_lines_are_wrong_fails_and_says_why() -> None:
    mistakes = [Mistake("code", "why", 2)]
    failed = checked(JOB, 3, mistakes, 1.0)
    assert (failed.status, failed.mistakes) == (JobStatus.FAILED, mistakes)


def test_a_job_whose_time_is_over_first_waits_for_its_lines_and_then_says_which_were_not_run() -> None:
    assert next_for(RUNNING, 1, 1, 100.0) is Next.WAIT
    assert ticked(RUNNING, 1, 1, 100.0) is RUNNING
    late = ticked(RUNNING, 2, 0, 101.0)
    assert next_for(late, 2, 0, 101.0) is Next.WRITE_REST
    assert next_for(late, 3, 0, 101.0) is Next.CLOSE
    assert closed(late, 102.0).status is JobStatus.EXPIRED


def test_files_that_are_being_made_are_not_written_to_again() -> None:
    """After a restart nobody counts what was moved away already."""
    late = replace(ticked(RUNNING, 2, 0, 101.0), output_file="file-1")
    assert next_for(late, 0, 0, 101.0) is Next.CLOSE


def test_a_job_that_was_answered_in_full_is_completed_even_if_its_time_is_over() -> None:
    done = ticked(RUNNING, 3, 0, 200.0)
    assert closed(done, 201.0).status is JobStatus.COMPLETED


def test_a_job_that_was_never_checked_in_time_has_expired() -> None:
    assert ticked(JOB, 0, 0, 99.0) is JOB
    assert ticked(JOB, 0, 0, 100.0).status is JobStatus.EXPIRED


def test_a_cancelled_job_ends_once_nothing_of_it_is_in_flight() -> None:
    for job in (JOB, RUNNING):
        stopping = cancelled(job, 5.0)
        assert stopping.status is JobStatus.CANCELLING
        assert next_for(stopping, 0, 1, 6.0) is Next.WAIT
        assert next_for(stopping, 0, 0, 6.0) is Next.CLOSE
        assert closed(stopping, 7.0).status is JobStatus.CANCELLED
        assert cancelled(stopping, 8.0) is stopping
        assert checked(stopping, 3, [], 8.0).status is JobStatus.CANCELLING


@pytest.mark.parametrize("status", OVER)
def test_a_job_that_is_over_stays_as_it_is(status: JobStatus) -> None:
    over = replace(JOB, status=status)
    assert cancelled(over, 1.0) is over
    assert ticked(over, 0, 0, 1000.0) is over
    assert all(moved(over, other, 1.0) is over for other in JobStatus if other is not JobStatus.VALIDATING)


def test_a_line_is_known_by_its_name() -> None:
    assert job_of_line(line_name(JOB.id, 7)) == JOB.id
    assert job_of_line("anything else") is None


def test_a_job_asks_as_whoever_made_it() -> None:
    assert JOB.identity is None
    asker = replace(JOB, tier="paid", key_id="k").identity
    assert asker is not None
    assert (asker.tenant, asker.tier, asker.key_id) == ("t", "paid", "k")
