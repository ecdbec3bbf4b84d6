"""What Prometheus is given: its own tool reads it, each alert is tested, and each has a runbook."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from threading import Thread

import pytest

from penstock.adapters.observe import catalogue
from penstock.adapters.observe.exposition import Exposition
from penstock.adapters.observe.metrics import Metrics
from penstock.gauges import ServerGauges
from prometheus_kit import ROOT, RULES, Prometheus, command, prometheus
from server import PATIENT, Server, eventually, running

FOLDER = ROOT / "deploy/prometheus"
TEXT = RULES.read_text()
RECORDS = re.findall(r"^ +- record: (\S+)$", TEXT, re.M)
ALERTS = re.findall(r"^ +- alert: (\w+)$", TEXT, re.M)
OPERATIONS = (ROOT / "docs/operations.md").read_text()
PICKY = """
def batch(inputs):
    if "bad" in inputs:
        raise ValueError("no")
    return inputs
"""
# Metrics that Prometheus has by itself, and those that the rules make.
ITS_OWN = {"up", *RECORDS}


def promtool(*words: str | Path) -> str:
    done = subprocess.run(
        [command("promtool"), *map(str, words)], capture_output=True, text=True, cwd=FOLDER, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_prometheus_takes_the_example_of_a_configuration_and_the_rules() -> None:
    assert "SUCCESS" in promtool("check", "config", "prometheus.yaml")
    assert "SUCCESS" in promtool("check", "rules", RULES)


def test_each_alert_fires_when_it_should_and_not_before_and_not_for_others() -> None:
    assert "SUCCESS" in promtool("test", "rules", "penstock.test.yaml")


def cases_in() -> list[str]:
    """The cases, each from its name on."""
    return re.split(r"^  - name: ", (FOLDER / "penstock.test.yaml").read_text(), flags=re.M)[1:]


def test_each_recording_rule_is_tested() -> None:
    expected = re.findall(
        r"^ +- expr: round\((\S+), \S+\)\n +eval_time: \S+\n +exp_samples:\n +- ", "".join(cases_in()), re.M
    )
    assert expected == RECORDS


def test_each_alert_is_tested_both_ways() -> None:
    cases = [case for case in cases_in() if not case.startswith("the recording rules\n")]
    assert {case.partition("\n")[0] for case in cases} == set(ALERTS)
    for case in cases:
        name = case.partition("\n")[0]
        expected = re.findall(rf"- alertname: {name}\n +eval_time: \S+\n +exp_alerts:( \[\])?", case)
        assert sorted(expected) == ["", " []"], name


def test_each_alert_has_a_runbook_and_each_runbook_an_alert() -> None:
    headings = re.findall(r"^### (Penstock\w+)$", OPERATIONS, re.M)
    assert sorted(headings) == sorted(ALERTS)
    runbooks = re.findall(r"^ +runbook: docs/operations\.md#(\w+)$", TEXT, re.M)
    assert runbooks == [alert.lower() for alert in ALERTS]
    severities = dict(re.findall(r"alert: (\w+)\n.*?severity: (\w+)", TEXT, re.S))
    for alert in ALERTS:
        assert f"### {alert}\n\n`{severities[alert]}`. " in OPERATIONS


def test_rules_name_only_metrics_and_labels_that_exist() -> None:
    families = {family.shown: family for family in catalogue.FAMILIES}
    for family in catalogue.FAMILIES:
        if family.kind == "histogram":
            families[f"{family.name}_bucket"] = family
    expressions = re.sub(r"^ +(#|summary|runbook).*$|- (record|alert): .*$", "", TEXT, flags=re.M)
    for name, matchers in re.findall(r"\b((?:model:)?penstock_\w+(?::\w+)?)(?:\{([^}]*)\})?", expressions):
        if name in ITS_OWN:
            continue
        assert name in families, name
        labels = set(re.findall(r"(\w+)[=!]", re.sub(r'"[^"]*"', "", matchers)))
        assert labels <= {*families[name].labels, "job", "instance", "le"}, (name, matchers)


# ---- a real Prometheus --------------------------------------------------------------------------------------


def latencies() -> list[float]:
    """Of requests of batches of one length: most in a few milliseconds, and a tail."""
    random = Random(11)
    return sorted(
        random.uniform(0.2, 0.207) if random.random() < 0.97 else 0.3 + random.expovariate(2.0)
        for _ in range(10_000)
    )


class Known(BaseHTTPRequestHandler):
    """A process whose latencies are known."""

    def do_GET(self) -> None:
        metrics = Metrics(["known"])
        metrics.models["known"].latency.observe_all(latencies())
        page, kind = Exposition(metrics, ServerGauges).answer(self.headers["accept"])
        self.send_response(200)
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *_: object) -> None:
        """Says nothing."""


@contextmanager
def known() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Known) as server:
        serving = Thread(target=server.serve_forever)
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("function") / "picky.py"
    file.write_text(PICKY)
    with running(f"{file}:batch", config=PATIENT) as server:
        yield server


@pytest.fixture(scope="module")
def asked(server: Server) -> Iterator[Prometheus]:
    with known() as page, prometheus({"penstock": [server.admin_url], "known": [page]}) as asked:
        yield asked


def test_prometheus_finds_nothing_to_complain_of_on_a_page(server: Server) -> None:
    assert server.post("/v1/inference", {"input": "a"}).status == 200
    page = server.admin("/metrics").body
    done = subprocess.run(
        [command("promtool"), "check", "metrics"], input=page, capture_output=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_quantiles_that_prometheus_works_out_are_within_five_percent(asked: Prometheus) -> None:
    values = latencies()

    def said(quantile: float) -> list[float]:
        buckets = 'penstock_request_latency_seconds_bucket{model="known"}'
        return [sample.value for sample in asked.query(f"histogram_quantile({quantile}, {buckets})")]

    answers: dict[float, list[float]] = {}

    def all_said() -> bool:
        """A scrape that takes too long leaves Prometheus with nothing to say until the next one."""
        answers.update({quantile: said(quantile) for quantile in (0.5, 0.95, 0.99)})
        return all(answers.values())

    eventually(all_said)
    for quantile, answer in answers.items():
        assert answer == [pytest.approx(values[int(quantile * len(values)) - 1], rel=0.05)]


def test_prometheus_keeps_the_trace_of_a_slow_request(server: Server, asked: Prometheus) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    parent = {"traceparent": f"00-{trace}-00f067aa0ba902b7-01"}
    assert server.post("/v1/inference", {"input": "a"}, parent).status == 200
    name = "penstock_request_latency_seconds_bucket"
    eventually(lambda: [each.labels for each in asked.exemplars(name)] == [{"trace_id": trace}])


def test_an_alert_fires_when_a_real_server_has_a_dead_letter(server: Server, asked: Prometheus) -> None:
    def firing() -> set[str]:
        return {sample.labels["alertname"] for sample in asked.query('ALERTS{alertstate="firing"}')}

    eventually(lambda: [each.value for each in asked.query("penstock_dead_letters_total")] == [0.0])
    assert "PenstockDeadLetters" not in firing()
    assert server.post("/v1/inference", {"input": "bad"}).status == 502
    eventually(lambda: "PenstockDeadLetters" in firing())
