"""The reports of several processes together."""

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st
from overview_kit import TIERS, report, seen, standing, worker

from penstock.adapters.observe.histogram import FINE
from penstock.overview.counts import Counts, added, between
from penstock.overview.quantile import quantiles
from penstock.overview.reports import Moment, Report, Step
from penstock.overview.view import past_of

counts = st.builds(
    Counts,
    outcomes=st.dictionaries(st.sampled_from(["SUCCESS", "INTERNAL"]), st.integers(1, 99)),
    latency=st.dictionaries(st.sampled_from([1000, 21870]), st.integers(1, 99)),
    batched=st.integers(0, 99),
)


@given(counts, counts)
def test_what_was_added_is_what_is_new(before: Counts, more: Counts) -> None:
    assert between(before, added([before, more])) == more


@given(st.lists(st.floats(0.0, 50.0), min_size=1, max_size=60), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_quantile_is_within_the_bucket_of_the_true_one(seconds: list[float], share: float) -> None:
    latency: dict[int, int] = {}
    for each in seconds:
        bound = round(FINE[bisect_left(FINE, each)] * 1e6)
        latency[bound] = latency.get(bound, 0) + 1
    [found] = quantiles(latency, share)
    assert found is not None
    true = next(each for at, each in enumerate(sorted(seconds), 1) if at >= share * len(seconds))
    place = bisect_left(FINE, true)
    assert (FINE[place - 1] if place else 0.0) - 1e-5 <= found <= FINE[place] + 1e-5


def test_no_request_has_no_quantile() -> None:
    assert quantiles({}, 0.5, 0.99) == [None, None]
    assert quantiles({60_000_001: 3}, 0.5) == [60.0]


def test_gateways_and_batchers_each_bring_their_part() -> None:
    gateways = [
        report(Counts({"SUCCESS": 100}), name="g1", seconds=10.0),
        report(Counts({"SUCCESS": 100, "CLIENT_LEFT": 5}), name="g2", seconds=5.0),
    ]
    padded = Counts(reasons={"due": 10}, batched=40, padding=10)
    stands = standing(20.0, wait=0.1), standing(40.0, capacity=120.0, wait=0.4)
    batchers = [
        report(padded, stands[0], name="b1", promise=None),
        report(Counts(reasons={"due": 10}, batched=60), stands[1], name="b2", promise=None),
    ]
    overview = seen(*gateways, *batchers, workers=(worker(0), worker(1, state="offline")))
    [model] = overview.models
    assert model.figures == overview.figures
    assert model.figures.rates == {"ok": 30.0, "left": 1.0}
    assert (model.figures.load, model.figures.capacity) == (60.0, 120.0)
    assert (model.figures.batch, model.figures.padding) == (5.0, 0.0909)
    assert model.standing.queue == dict.fromkeys(TIERS, 0)
    assert (model.standing.expected_wait, model.standing.queue_limit) == (0.4, 2000)
    assert (model.workers, model.healthy) == (2, 1)
    assert model.outcomes == {"SUCCESS": 200, "CLIENT_LEFT": 5}


def test_a_request_for_no_known_model_is_in_the_sum_only() -> None:
    unknown = report(Counts(refused={"NOT_FOUND": 20}), model="", promise=None)
    overview = seen(report(Counts({"SUCCESS": 10})), unknown)
    assert [model.name for model in overview.models] == ["embed"]
    assert overview.figures.rates == {"ok": 1.0, "rejected": 2.0}


def test_steps_of_several_processes_that_end_together_are_one() -> None:
    def told(name: str, *ends: int) -> Report:
        moment = Moment(Counts({"SUCCESS": 50}), {"paid": 2}, 100.0)
        return Report(name, "gateway", 5.0, {}, hour=[Step(at, 10.0, {"embed": moment}) for at in ends])

    hour = past_of([told("g1", 1010, 1020), told("g2", 1011, 1021, 1030)])
    assert [(past.at, past.figures.rates["ok"], past.models["embed"].queue) for past in hour] == [
        (1010, 10.0, {"paid": 4}), (1020, 10.0, {"paid": 4}), (1030, 5.0, {"paid": 2}),
    ]  # fmt: skip


def test_why_the_policy_does_what_it_does_is_told_by_what_all_have_learned() -> None:
    stands = [standing(), standing(capacity=200.0)]
    stands[1].best_batch = 16
    reports = [report(None, each, name=f"b{place}") for place, each in enumerate(stands)]
    [model] = seen(*reports, workers=(worker(0), worker(1))).models
    assert model.policy_reason == (
        "2 workers start out of step, so that one is free soon; the fuller a batch, the better: up to 16"
    )
