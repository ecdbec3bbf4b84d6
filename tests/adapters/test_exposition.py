"""The metrics page in both formats, read by the parsers of Prometheus' own Python client."""

import pytest
from prometheus_client.parser import text_string_to_metric_families as read_classic
from prometheus_client.samples import Exemplar, Timestamp

from metrics_page import read_openmetrics
from penstock.adapters.observe import catalogue
from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.metrics import Metrics
from penstock.adapters.observe.pauses import LoopPauses
from penstock.adapters.observe.text import CLASSIC, OPENMETRICS, number, wants_openmetrics
from penstock.gauges import (
    BatchingGauges,
    CacheCounts,
    DeskGauges,
    LedgerGauges,
    ModelGauges,
    ModelScalingGauges,
    RecordingGauges,
    ScalingGauges,
    ServerGauges,
    StoreGauges,
    TlsGauges,
    TracingGauges,
)

PROMETHEUS = (  # what Prometheus 2.42 sends
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MOVING = {"penstock_process_cpu_seconds", "penstock_process_resident_bytes"}  # from one page to the next
MODEL = 'a "model"\\with all'  # in quotes and with a backslash


def everything() -> ServerGauges:
    """A process that has something to say of all there is."""
    batching = BatchingGauges(
        20_000, 0.2, {"warning": 100.0, "critical": 500.0}, 0.5, {"one": 0.1, "full": 0.2}, 32, 64, "paced"
    )
    model = ModelGauges({"paid": 3}, {"idle": 1, "busy": 2}, 9.5, 0.5, 320.0, 1, 0.25, 48, batching)
    return ServerGauges(
        {MODEL: model}, 7, 2, {MODEL: 4}, TlsGauges(1, 0, 3, 1_900_000_000.0),
        LedgerGauges({"written": 5, "lost": 0}, 1, 200, 1_000, up=True), TracingGauges(5, 1, 2),
        {MODEL: CacheCounts(1, 2, 3, 4, 5)}, 6, 1,
        {"message": 2}, {"the mailbox": 1}, (100, 1), {MODEL: DeskGauges(0.25, 2.0, ready=True)}, 20_000,
        StoreGauges(True, 0.5, 0.8, {"gateway": 2}, 1), RecordingGauges(7, 1),
        ScalingGauges(True, 3, 1, {MODEL: ModelScalingGauges(3, 2, 12.5, 4, 1)}),
    )  # fmt: skip


def exposition(role: str = catalogue.SERVE) -> Exposition:
    metrics = Metrics([MODEL], lambda: 1_700_000_000.5)
    metrics.models[MODEL].latency.observe_all([0.05, 0.1057, 70.0])
    metrics.models[MODEL].traced.note(f"00-{TRACE}-00f067aa0ba902b7-01", 0.1057)
    metrics.models[MODEL].reasons["full"] = 3
    metrics.refusals["", "NOT_FOUND"] = 2
    metrics.succeeded_at["native"] = 4
    return Exposition(metrics, everything, LoopPauses(), role)


@pytest.mark.parametrize("role", sorted(catalogue.ALL))
def test_both_formats_say_the_same_of_every_metric_that_the_role_has(role: str) -> None:
    said = exposition(role)
    classic = {family.name: family for family in read_classic(said.text().decode())}
    modern = {family.name: family for family in read_openmetrics(said.text(openmetrics=True).decode())}
    wanted = {family.name: family for family in catalogue.FAMILIES if role in family.roles}
    assert set(classic) == set(modern) == set(wanted)
    for name, family in wanted.items():
        for found in (classic[name], modern[name]):
            assert (found.type, found.documentation) == (family.kind, family.about)
            assert found.samples, name
            for sample in found.samples:
                assert set(sample.labels) - {"le"} == set(family.labels)
        # The moment and the processor time differ, and bounds are written 1 or 1.0.
        ours, theirs = ([each.name for each in page[name].samples] for page in (classic, modern))
        assert ours == theirs
        if name not in MOVING:
            values, same = ([each.value for each in page[name].samples] for page in (classic, modern))
            assert values == same


def test_a_process_without_a_feature_does_not_show_its_metrics() -> None:
    text = Exposition(Metrics(["m"]), ServerGauges).text().decode()
    assert "penstock_tls_" not in text
    assert "penstock_ledger_" not in text
    assert "# TYPE penstock_cache_requests_total counter" in text


def test_buckets_add_up_and_end_with_all_there_is() -> None:
    families = {family.name: family for family in read_classic(exposition().text().decode())}
    samples = families["penstock_request_latency_seconds"].samples
    buckets = [(sample.labels["le"], sample.value) for sample in samples if sample.name.endswith("_bucket")]
    assert [count for _, count in buckets] == sorted(count for _, count in buckets)
    assert [dict(buckets)[bound] for bound in ("0.05", "60", "+Inf")] == [1, 2, 3]
    assert buckets[-1][0] == "+Inf"
    assert next(sample.value for sample in samples if sample.name.endswith("_count")) == 3
    assert next(sample.value for sample in samples if sample.name.endswith("_sum")) == pytest.approx(70.1557)


def test_an_example_stands_beside_its_bucket_and_only_in_openmetrics() -> None:
    page = exposition()
    assert b"trace_id" not in page.text()
    families = read_openmetrics(page.text(openmetrics=True).decode())
    found = [sample for family in families for sample in family.samples if sample.exemplar is not None]
    assert [sample.labels["le"] for sample in found] == ["0.1093"]
    assert [sample.exemplar for sample in found if sample.exemplar is not None] == [
        Exemplar({"trace_id": TRACE}, 0.1057, Timestamp(1_700_000_000, 500_000_000))
    ]


@pytest.mark.parametrize(
    ("accept", "openmetrics"),
    [
        (PROMETHEUS, True),
        ("application/openmetrics-text", True),
        ("text/plain;q=0.3, Application/OpenMetrics-Text; version=1.0.0; q=0.4", True),
        ("", False),
        ("*/*", False),
        ("text/plain, */*", False),
        ("text/plain, application/openmetrics-text;q=0.5", False),
        ("application/openmetrics-text;q=0", False),
        ("application/openmetrics-text;version=2.0.0", False),
        ("application/openmetrics-text;q=much", False),
        (",;=,application/json", False),
    ],
)
def test_who_asks_for_openmetrics_gets_it_and_nobody_else(accept: str, openmetrics: bool) -> None:
    assert wants_openmetrics(accept) is openmetrics
    page, kind = exposition().answer(accept)
    assert kind == (OPENMETRICS if openmetrics else CLASSIC)
    assert page.endswith(b"# EOF\n") is openmetrics


def test_numbers_are_written_as_both_formats_read_them() -> None:
    told = [number(value) for value in (3, 0.25, 1e-07, 1.5e300, float("inf"), float("-inf"), float("nan"))]
    assert told == ["3.0", "0.25", "1e-07", "1.5e+300", "+Inf", "-Inf", "NaN"]
