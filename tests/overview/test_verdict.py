"""One sentence says how it stands, and one what to do."""

import pytest
from overview_kit import report, seen, standing, worker

from penstock.overview.counts import Counts
from penstock.overview.overview import NOT_ASKED, ProcessLook
from penstock.overview.reports import Report

OK = {"SUCCESS": 100}


def said(*reports: Report, **more: object) -> tuple[str, str, str]:
    verdict = seen(*reports, **more).verdict  # type: ignore[arg-type]
    return verdict.level, verdict.says, verdict.advice


def test_all_is_well_with_the_part_of_the_capacity_that_is_used() -> None:
    assert said(report(Counts(OK), standing(41.0))) == ("good", "All is well: 41 % of capacity.", "")


def test_nothing_to_do() -> None:
    assert said(report(stands=standing())) == ("good", "All is well: idle.", "")
    assert said(report(stands=standing(capacity=0.0)))[1] == "All is well: nothing has been asked yet."
    assert said()[1] == "No model has been announced yet."


def test_overloaded_by_how_much_and_who_is_refused() -> None:
    refused = {"SERVICE_OVERLOADED": 1300}
    counts = Counts(OK, refused, {"paid": 300, "free": 1000})
    level, says, advice = said(report(counts, standing(100.0)))
    assert (level, says) == ("bad", "Overloaded: 2.3 × capacity; paid and free are refused.")
    assert advice == "Add workers."
    assert said(report(Counts(OK, refused, {"free": 1300}), standing(100.0)))[1].endswith("free is refused.")
    assert said(report(Counts(OK, refused), standing(100.0)))[1].endswith("requests are refused.")


def test_requests_that_expire_under_an_overload_are_said_to_be_its_doing() -> None:
    counts = Counts({"SUCCESS": 900, "DEADLINE_EXCEEDED": 100}, {"SERVICE_OVERLOADED": 900})
    level, says, advice = said(report(counts, standing(150.0)))
    assert (level, says) == ("bad", "Overloaded: 2.4 × capacity; 10 % of the requests expire.")
    assert advice == "Add workers."
    level, says, advice = said(
        report(Counts({"SUCCESS": 900, "DEADLINE_EXCEEDED": 100}), standing(50.0, 1000.0))
    )
    assert (level, says) == ("bad", "10 % of the requests fail, most with DEADLINE_EXCEEDED.")
    assert "timeouts.timeout" in advice


def test_refused_although_there_is_capacity() -> None:
    level, says, advice = said(report(Counts(OK, {"SERVICE_OVERLOADED": 200}), standing(20.0)))
    assert (level, says) == (
        "bad", "20 requests/s are refused, although only 40 % of the capacity is asked for.",
    )  # fmt: skip
    assert "penstock check" in advice


def test_quotas_and_clients_mistakes_are_no_trouble_of_the_server() -> None:
    counts = Counts(OK, {"QUOTA_EXCEEDED": 5000, "UNACCEPTABLE": 5000})
    assert said(report(counts, standing(41.0)))[0] == "good"


def test_failures_are_said_with_their_code_before_refusals() -> None:
    counts = Counts({"SUCCESS": 900, "BACKEND_CRASHED": 90, "INTERNAL": 10}, {"SERVICE_OVERLOADED": 900})
    level, says, advice = said(report(counts, standing(150.0)))
    assert (level, says) == ("bad", "10 % of the requests fail, most with BACKEND_CRASHED.")
    assert "last error" in advice


def test_without_a_worker_the_last_error_is_told() -> None:
    broken = worker(state="offline", error="CUDA is not there")
    level, says, advice = said(report(stands=standing()), workers=(broken,))
    assert (level, says) == ("bad", "No worker can serve the model.")
    assert "CUDA is not there" in advice
    assert said(report(stands=standing()), workers=(worker(state="loading"),))[:2] == (
        "warning", "The model is loading.",
    )  # fmt: skip


def test_a_worker_is_missing() -> None:
    some = (worker(0), worker(1, state="resting", error="it failed"), worker(2))
    level, says, advice = said(report(Counts(OK), standing(41.0)), workers=some)
    assert (level, says) == ("warning", "1 of 3 workers does not serve (resting).")
    assert "it failed" in advice


def test_little_is_left() -> None:
    assert said(report(Counts(OK), standing(95.0)))[:2] == ("warning", "Nearly full: 95 % of capacity.")
    slow = Counts(OK, latency={640_000: 100})
    assert said(report(slow, standing(41.0)))[1].startswith("Slow: the slowest 1 % take 640 ms; 500 ms is")
    waits = said(report(Counts(OK), standing(41.0, wait=1.9)))[1]
    assert waits == "A request that comes now waits for 1.9 s; it may wait for 2.0 s."


def test_the_worst_model_is_named() -> None:
    well = report(Counts(OK), standing(41.0))
    full = report(Counts(OK), standing(95.0), model="rank")
    verdict = seen(well, full, workers=(worker(), worker(model="rank"))).verdict
    assert (verdict.says, verdict.model) == ("rank: nearly full, 95 % of capacity.", "rank")


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("no batcher is running", "Start a batcher: penstock batcher."),
        ("Redis does not answer", "Bring Redis back, or look at the network between."),
        ("loading embed", "It passes by itself."),
        ("no healthy worker for embed", "Look at the last error of the workers, and at their log."),
    ],
)
def test_not_ready_says_why(reason: str, advice: str) -> None:
    assert said(not_ready=reason) == ("bad", f"Not ready: {reason}.", advice)


def test_a_process_that_does_not_answer_is_named() -> None:
    here, away = (ProcessLook(name, "gateway", "h", 0.0, told=False) for name in ("serve", "gateway-2"))
    overview = seen(report(Counts(OK), standing(41.0)), processes=(here, away))
    assert overview.verdict.says == "gateway-2 does not answer: figures are missing."
    assert [each.told for each in overview.processes] == [True, False]


def test_workers_and_autoscalers_are_not_asked() -> None:
    there = tuple(ProcessLook(role, role, "h", 0.0, told=False) for role in NOT_ASKED)
    assert seen(report(Counts(OK), standing(41.0)), processes=there).verdict.level == "good"
