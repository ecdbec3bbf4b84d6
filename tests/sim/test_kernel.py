"""The server's own decisions in virtual time."""

from array import array
from random import Random

import pytest

from penstock.core.buffer import TierRules
from penstock.core.refusal import AdmissionRules
from penstock.core.rules import BatchingRules
from penstock.core.sizes import Sizes
from penstock.load.arrivals import poisson
from penstock.service_model import ServiceModel
from penstock.sim.kernel import Kernel, Run, Scenario
from penstock.types import Batch, Seconds, WorkerId

CASE_A = ServiceModel(a=0.1)


def scenario(service: ServiceModel = CASE_A, workers: int = 6, **changed: object) -> Scenario:
    rules = changed.pop("rules", None) or BatchingRules(max_batch=32)
    return Scenario(service, workers, rules, **changed)  # type: ignore[arg-type]


def everybody_answered(run: Run) -> bool:
    return len(run.latencies) + sum(run.errors.values()) == run.sent


def test_a_single_request_takes_its_service_time() -> None:
    run = Kernel(scenario(workers=1)).run([1.0])
    assert list(run.latencies) == pytest.approx([0.1])
    assert list(run.finished_at) == pytest.approx([1.1])
    assert (run.sent, run.batches, run.batched) == (1, 1, 1)
    assert run.busy_seconds == pytest.approx(0.1)
    assert run.ended == pytest.approx(1.1)


def test_the_same_seed_gives_the_same_run_to_the_last_bit() -> None:
    service = ServiceModel(a=0.05, b=0.001, jitter=0.1, fail=0.02, crash=0.01, short=0.01, garbage=0.01)

    def once(seed: int) -> Run:
        made = scenario(service, seed=seed, tier_shares=(0.2, 0.8), tenants=3)
        return Kernel(made).run(poisson(500.0, 5.0, Random(1)))

    one, two, other = once(1), once(1), once(2)
    assert (one.latencies, one.errors, one.reasons) == (two.latencies, two.errors, two.reasons)
    assert one.latencies != other.latencies
    assert everybody_answered(one)


def test_a_batch_takes_as_long_as_the_size_it_is_padded_to() -> None:
    service = ServiceModel(a=0.1, b=0.001)
    rules = BatchingRules(max_batch=32, policy="greedy", sizes=Sizes((8, 32)))
    run = Kernel(scenario(service, workers=1, rules=rules)).run([1.0])
    assert list(run.latencies) == pytest.approx([0.108])
    assert (run.batches, run.batched, run.padding) == (1, 1, 7)


def test_the_first_batch_of_each_size_takes_longer_on_each_worker() -> None:
    service = ServiceModel(a=0.1, new_shape=0.08)
    run = Kernel(scenario(service, workers=1)).run([1.0, 2.0, 3.0, 3.0, 3.0, 4.0])
    first, later = 0.18, 0.1
    # Of the three that come together, one goes at once and the other two with the next batch.
    assert list(run.latencies) == pytest.approx([first, later, later, later + first, later + first, later])
    two = Kernel(scenario(service, workers=2)).run([1.0, 2.0, 3.0])
    assert list(two.latencies) == pytest.approx([first, first, later])


def test_a_worker_that_comes_back_has_run_no_size() -> None:
    service = ServiceModel(a=0.1, new_shape=0.08, crash=1.0)
    crashes: list[Seconds] = []
    made = scenario(service, workers=1, request_limit=9.0, queue_limit=9.0)
    Kernel(made, lambda now, worker, batch: crashes.append(now)).run([1.0])
    kernel = Kernel(made)
    kernel.run([1.0])
    busy = kernel.batcher.fleet.workers[WorkerId("sim/0")].busy_seconds
    assert len(crashes) > 1
    assert busy == pytest.approx(0.18 * len(crashes))


def test_sizes_that_were_warmed_up_cost_nothing_more_and_their_time_is_known() -> None:
    service = ServiceModel(a=0.1, new_shape=0.08)
    kernel = Kernel(scenario(service, workers=1, warmed=(1, 2, 4)))
    run = kernel.run([1.0, 2.0, 3.0, 3.0, 3.0])
    assert list(run.latencies) == pytest.approx([0.1, 0.1, 0.1, 0.2, 0.2])
    assert kernel.batcher.curve.single == pytest.approx(0.1)
    assert kernel.batcher.curve.shape.seconds == pytest.approx(0.08)


def test_every_dispatch_can_be_watched() -> None:
    seen: list[tuple[Seconds, WorkerId, int]] = []

    def watch(now: Seconds, worker: WorkerId, batch: Batch) -> None:
        seen.append((now, worker, batch.size))

    run = Kernel(scenario(), watch).run(poisson(300.0, 2.0, Random(1)))
    assert len(seen) == run.batches
    assert sum(size for _, _, size in seen) == run.batched
    assert {worker for _, worker, _ in seen} == {f"sim/{n}" for n in range(6)}


@pytest.mark.parametrize("fault", ["fail", "crash", "garbage", "short"])
def test_faulty_workers_cost_few_requests_and_leave_none_without_an_answer(fault: str) -> None:
    service = ServiceModel(a=0.05, **{fault: 0.03})  # type: ignore[arg-type]
    run = Kernel(scenario(service)).run(poisson(300.0, 20.0, Random(1)))
    assert everybody_answered(run)
    assert len(run.latencies) > 0.97 * run.sent


def test_a_worker_that_hangs_is_given_up_after_the_processing_limit_and_comes_back() -> None:
    service = ServiceModel(a=0.05, hang=0.02)
    run = Kernel(scenario(service, rules=BatchingRules(max_batch=32, processing=0.5))).run(
        poisson(300.0, 20.0, Random(1))
    )
    assert everybody_answered(run)
    assert len(run.latencies) > 0.9 * run.sent


def test_a_service_longer_than_the_processing_limit_never_succeeds() -> None:
    run = Kernel(scenario(ServiceModel(a=1.0), rules=BatchingRules(processing=0.5))).run([0.0])
    assert len(run.latencies) == 0
    assert run.errors["BACKEND_TIMEOUT"] == 1


def test_poison_fails_alone() -> None:
    """The simulator's requests are all alike, so either all of them are poison or none is."""
    run = Kernel(scenario(ServiceModel(a=0.1, poison='""'))).run([0.0, 0.0, 0.0])
    assert run.errors == {"BACKEND_FAILED": 3}


def test_answers_past_the_deadline_count_as_late_not_as_served() -> None:
    run = Kernel(scenario(workers=1, admission=None, request_limit=0.05, queue_limit=0.05)).run([0.0])
    assert (run.late, len(run.latencies), run.errors["DEADLINE_EXCEEDED"]) == (1, 0, 1)


def test_what_is_refused_is_counted_by_code() -> None:
    arrivals = [n / 4000 for n in range(4000)]
    run = Kernel(scenario(admission=AdmissionRules(max_queue=50))).run(arrivals)
    assert run.errors["SERVICE_OVERLOADED"] > 0
    assert everybody_answered(run)


def test_costs_bound_batches_and_group_lengths() -> None:
    sizes: list[float] = []
    rules = BatchingRules(max_batch=32, max_cost=100.0, group_lengths=True)

    def watch(now: Seconds, worker: WorkerId, batch: Batch) -> None:
        sizes.append(sum(request.cost for request in batch.requests))
        assert len({request.length.bit_length() for request in batch.requests}) == 1

    rng = Random(1)
    schedule = poisson(200.0, 5.0, rng)
    costs = array("d", (rng.choice((5.0, 60.0, 120.0)) for _ in schedule))
    run = Kernel(scenario(rules=rules), watch).run(schedule, costs)
    assert max(sizes) <= 100.0
    assert run.errors["UNACCEPTABLE"] == sum(cost > 100.0 for cost in costs)


def test_arrivals_fall_to_the_tiers_by_their_shares() -> None:
    run = Kernel(scenario(tier_shares=(0.2, 0.3, 0.5))).run(poisson(1000.0, 10.0, Random(1)))
    shares = [run.sent_by_tier[tier] / run.sent for tier in range(3)]
    assert shares == pytest.approx([0.2, 0.3, 0.5], abs=0.02)
    assert sum(run.in_time_by_tier.values()) == len(run.latencies)


def test_weighted_tiers_leave_the_lowest_slow_but_not_starved() -> None:
    rules = BatchingRules(max_batch=32, tiers=TierRules(weights=(8.0, 4.0, 1.0)))
    overload = scenario(
        rules=rules, tier_shares=(0.4, 0.3, 0.3), admission=None, queue_limit=5.0, request_limit=5.0
    )
    run = Kernel(overload).run(poisson(3840.0, 10.0, Random(1)))
    served = [run.in_time_by_tier[tier] / run.sent_by_tier[tier] for tier in range(3)]
    assert served[0] > served[1] > served[2] > 0.05
