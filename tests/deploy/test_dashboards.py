"""The dashboards: their files are what the code makes, and each query has something to show of a real server."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import combinations
from threading import Event
from typing import Any

import pytest
from tools.dashboards.__main__ import BOARDS, FOLDER, files
from tools.dashboards.grafana import COLUMNS, Board, Query
from up_kit import Up, up

from certificates import Authority
from penstock.adapters.observe import catalogue
from prometheus_kit import Prometheus, prometheus
from server import PATIENT, Server, call, eventually, running

ALONE, FLEET = "penstock", "penstock-fleet"
CONFIG = """
[ledger]
url = "sqlite:///ledger.db"
[models.sim]
target = "sim:20ms"
default = true
[models.same]
target = "sim:5ms"
deterministic = true
"""
ASKERS = 8  # at once, of each
boards = pytest.mark.parametrize("board", BOARDS, ids=lambda board: board.uid)


def test_the_files_are_what_the_code_makes() -> None:
    wanted = files()
    assert set(FOLDER.glob("*.json")) == set(wanted)
    for file, text in wanted.items():
        assert file.read_text() == text, "make dashboards"


@boards
def test_panels_have_numbers_of_their_own_and_do_not_overlap(board: Board) -> None:
    panels = board.as_json()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    assert all(place["x"] + place["w"] <= COLUMNS for place in places)
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below


@boards
def test_what_may_be_empty_says_when(board: Board) -> None:
    for panel in board.panels:
        for query in panel.queries:
            assert query.empty in panel.description
            assert panel.queries


def test_all_together_show_every_metric_but_a_few() -> None:
    text = "\n".join(file.read_text() for file in FOLDER.glob("*.json"))
    missing = {family.shown for family in catalogue.FAMILIES if family.shown not in text}
    assert missing == {
        # What an alert or a look at the page is enough for.
        "penstock_tasks", "penstock_model_ready", "penstock_unsent_bytes", "penstock_unsent_cut_total",
        "penstock_largest_fitting_batch", "penstock_dead_letters_dropped_total", "penstock_cache_stored_total",
        "penstock_cache_evicted_total", "penstock_tls_certificate_loads_total",
        "penstock_tls_failed_certificate_loads_total", "penstock_tls_failed_handshakes_total",
        "penstock_ledger_rows_total", "penstock_ledger_waiting_rows", "penstock_ledger_up",
        "penstock_process_start_timestamp_seconds", "penstock_loop_pause_seconds",
        "penstock_trace_spans_total", "penstock_trace_waiting_spans", "penstock_recorded_requests_total",
    }  # fmt: skip


# ---- with a real Prometheus ----------------------------------------------------------------------------------


@contextmanager
def busy(server: Server, authority: Authority, installation: Up) -> Iterator[None]:
    """Both are asked by several at once, until this ends."""
    over, tls = Event(), authority.trusting()

    def ask(number: int) -> None:
        while not over.is_set():
            body = json.dumps({"input": f"input {number}"}).encode()
            kind = {"content-type": "application/json"}
            if number % 2:
                call(installation.ports["gateway-1"], "POST", "/v1/inference", body, kind)
            else:
                wanted = {"input": "a", "model": "same" if number % 4 else "sim"}
                call(server.url, "POST", "/v1/inference", json.dumps(wanted).encode(), kind, tls=tls)

    with ThreadPoolExecutor(2 * ASKERS) as pool:
        askers = [pool.submit(ask, number) for number in range(2 * ASKERS)]
        try:
            yield
        finally:
            over.set()
            for asker in askers:
                asker.result()


@pytest.fixture(scope="module")
def scraped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """A Prometheus that scrapes a server with TLS and a ledger, and an installation over Redis, both under load."""
    authority = Authority()
    pair = authority.issue(tmp_path_factory.mktemp("certificates"), "server")
    tls = f'[tls]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"'
    with (
        running(config=f"{PATIENT}\n{CONFIG}\n{tls}") as server,
        up("sim:20ms", gateways=1, batchers=2, workers=2) as installation,
        busy(server, authority, installation),
        prometheus({ALONE: [server.admin_url], FLEET: list(installation.admins.values())}) as asked,
    ):
        yield asked


def written_out(query: Query, job: str) -> str:
    """As Grafana sends it."""
    text = query.expression.replace("$job", job).replace("$model", ".*").replace("$__rate_interval", "5s")
    assert "$" not in text
    return text


def shows(asked: Prometheus, expression: str) -> bool:
    return any(not math.isnan(sample.value) for sample in asked.query(expression))


def jobs_of(board: Board) -> Sequence[str]:
    return [FLEET] if board.uid == "penstock-fleet" else [ALONE, FLEET]


@boards
def test_every_query_has_something_to_show_of_a_server_and_of_a_fleet_under_load(
    scraped: Prometheus, board: Board
) -> None:
    for job in jobs_of(board):
        for panel in board.panels:
            for query in panel.queries:
                expression = written_out(query, job)
                if query.empty:
                    scraped.query(expression)  # at least it is a query
                else:
                    eventually(partial(shows, scraped, expression))


def test_what_may_be_empty_is_not_where_there_is_something_to_show(scraped: Prometheus) -> None:
    reasons = {"there is no ledger", "there is no TLS", "the model is not deterministic"}
    queries = [query for board in BOARDS for panel in board.panels for query in panel.queries]
    found = [query for query in queries if query.empty in reasons]
    assert {query.empty for query in found} == reasons
    for query in found:
        eventually(partial(shows, scraped, written_out(query, ALONE)))


def test_every_rule_is_worked_out_and_every_record_has_something_to_show(scraped: Prometheus) -> None:
    def rules() -> list[Any]:
        return [rule for group in scraped.groups() for rule in group["rules"]]

    eventually(lambda: all(rule["health"] == "ok" for rule in rules()))
    records = [rule["name"] for rule in rules() if rule["type"] == "recording"]
    assert records
    for record in records:
        eventually(partial(shows, scraped, record))


def test_the_variables_find_the_jobs_and_the_models(scraped: Prometheus) -> None:
    for board in BOARDS:
        for variable in board.as_json()["templating"]["list"][1:]:
            found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"])
            assert found
            for job in jobs_of(board):
                expression = found[1].replace("$job", job)
                values = {sample.labels[found[2]] for sample in scraped.query(expression)}
                assert values & {"sim", ALONE, FLEET}
