"""docs/metrics.md has every metric that a process shows, with its type, unit and labels, and no other."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric
from up_kit import up

from certificates import Authority
from metrics_page import read_openmetrics
from penstock.adapters.observe import catalogue
from server import call, running

PAGE = Path(__file__).parents[2] / "docs/metrics.md"
ROW = re.compile(r"^\| `(penstock_\w+)` \| (\w+) \| ([^|]+) \| ([^|]*) \| ([^|]+) \| ([^|]+) \|$", re.M)
ACCEPT = {"accept": "application/openmetrics-text"}
BODY = b'{"input": "a"}'


@dataclass(frozen=True)
class Row:
    """One row of the page."""

    name: str
    type: str
    unit: str
    labels: frozenset[str]
    roles: frozenset[str]
    text: str


def rows() -> dict[str, Row]:
    found = {}
    for name, kind, unit, labels, roles, text in ROW.findall(PAGE.read_text()):
        assert name not in found, name
        whose = catalogue.ALL if roles == "all" else frozenset(roles.split(", "))
        found[name] = Row(name, kind, unit, frozenset(re.findall(r"`(\w+)`", labels)), whose, text)
    return found


def test_the_page_has_every_metric_with_its_type_unit_labels_and_roles() -> None:
    documented = {row.name: (row.type, row.unit, row.labels, row.roles) for row in rows().values()}
    assert documented == {
        family.shown: (family.kind, family.unit, frozenset(family.labels), family.roles)
        for family in catalogue.FAMILIES
    }
    assert all(row.text.strip() for row in rows().values())


def check(text: str, role: str, *, without: str = " ") -> None:
    """The page of a process of this role has what is documented of it and nothing else."""
    shown = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in read_openmetrics(text)
    }
    wanted = {name: row for name, row in rows().items() if role in row.roles and not re.match(without, name)}
    assert set(shown) == set(wanted)
    for name, family in shown.items():
        _check_family(family, wanted[name])


def _check_family(family: Metric, row: Row) -> None:
    assert family.type == row.type
    assert family.unit in ("", row.unit)
    for sample in family.samples:
        assert set(sample.labels) - {"le"} == row.labels, sample


def test_a_server_with_everything_on_shows_what_is_documented(tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.issue(tmp_path, "server")
    config = f"""
[tls]
certificate = "{pair.certificate}"
key = "{pair.key}"
[ledger]
url = "sqlite:///ledger.db"
[tracing]
endpoint = "http://127.0.0.1:1"
[trace]
record = "arrivals.csv"
[models.sim]
target = "sim:1ms"
deterministic = true
"""
    with running(config=config) as server:
        server.tls = authority.trusting()
        assert server.post("/v1/inference", {"input": "a"}).status == 200
        text = server.admin("/metrics", headers=ACCEPT).body.decode()
    check(text, catalogue.SERVE)


def test_each_role_over_redis_shows_what_is_documented_of_it() -> None:
    with up("sim:1ms") as installation:
        assert installation.ask("gateway-1", "POST", "/v1/inference", BODY).status == 200
        for name, admin in installation.admins.items():
            role = name.partition("-")[0]
            text = call(admin, "GET", "/metrics", headers=ACCEPT).body.decode()
            check(text, role, without="penstock_(tls_|ledger_|trace_|recorded_)")


@pytest.mark.parametrize("role", ["gateway", "batcher", "worker"])
def test_no_figure_over_redis_is_shown_by_two_roles_unless_it_is_of_the_process(role: str) -> None:
    """So a sum over all processes counts nothing twice."""
    own = {family for family in catalogue.FAMILIES if role in family.roles}
    others = catalogue.TOGETHER - {role}
    for family in own:
        assert family.roles in (catalogue.ALL, catalogue.TOGETHER) or not family.roles & others, family.shown
