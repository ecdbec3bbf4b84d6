"""`penstock requests`."""

import json
import time
from contextlib import closing
from pathlib import Path

import pytest
import typer
from ledger_kit import row
from typer.testing import CliRunner, Result

from penstock.adapters.ledger.open import open_store
from penstock.adapters.ledger.rows import to_lines
from penstock.cli.requests import requests
from penstock.errors import UserMistake

app = typer.Typer()
app.command()(requests)


def _asked(*args: str) -> Result:
    result = CliRunner().invoke(app, args)
    if isinstance(result.exception, UserMistake):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def ledger(tmp_path: Path) -> str:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    now = time.time()
    rows = [
        row(1, completed=now - 7200),
        row(2, completed=now - 60, status="DEADLINE_EXCEEDED"),
        row(3, completed=now - 30, tenant="bolt"),
        row(4, completed=now - 10),
    ]
    with closing(open_store(url)) as store:
        store.write("s", 1, to_lines(rows))
    return url


def _ids(result: Result) -> list[str]:
    return [json.loads(line)["id"] for line in result.output.splitlines()]


def test_it_shows_a_tenants_requests_of_the_last_hour(ledger: str) -> None:
    result = _asked("--ledger", ledger, "--tenant", "acme", "--since", "1h", "--json")
    assert _ids(result) == ["k4", "k2"]


def test_it_filters_by_status_and_shows_no_more_than_asked_for(ledger: str) -> None:
    assert _ids(_asked("--ledger", ledger, "--status", "deadline_exceeded", "--json")) == ["k2"]
    assert _ids(_asked("--ledger", ledger, "--limit", "1", "--json")) == ["k4"]
    asked = json.loads(_asked("--ledger", ledger, "--limit", "1", "--json").output)["request_id"]
    assert _ids(_asked("--ledger", ledger, "--id", asked, "--json")) == ["k4"]


def test_it_shows_a_table_for_people(ledger: str) -> None:
    shown = _asked("--ledger", ledger).output
    assert "DEADLINE_EXCEEDED" in shown
    assert "250.0" in shown
    assert "no such request" in _asked("--ledger", ledger, "--tenant", "nobody").output


def test_mistakes_are_one_line_that_says_what_to_do(ledger: str, tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="--since takes"):
        _asked("--ledger", ledger, "--since", "yesterday")
    with pytest.raises(UserMistake, match="there is no ledger"):
        _asked("--ledger", f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(UserMistake, match="cannot be read"):
        _asked("--ledger", "postgresql://someone:secret@127.0.0.1:1/ledger")


def test_the_configuration_says_where_the_ledger_is(
    ledger: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserMistake, match="no ledger is kept here"):
        _asked("--json")
    (tmp_path / "penstock.toml").write_text(f'[ledger]\nurl = "{ledger}"\n')
    assert _ids(_asked("--json", "--tenant", "bolt")) == ["k3"]
    monkeypatch.setenv("PENSTOCK_LEDGER_URL", f"sqlite:///{tmp_path / 'other.db'}")
    with pytest.raises(UserMistake, match="there is no ledger"):
        _asked("--json")


def test_a_name_is_shown_as_it_is_whatever_it_looks_like(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with closing(open_store(url)) as store:
        store.write("s", 1, to_lines([row(1, tenant="[/red] [bold]", completed=time.time())]))
    assert "[/red] [bold]" in _asked("--ledger", url).output
