"""`penstock explain`, asking real servers."""

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import Typed, typed

from server import running

__all__ = ["typed"]

FUNCTION = """\
def batchstring(inputs):
    if "bad" in inputs:
        raise ValueError("cannot read bad")
    return inputs
"""


@pytest.fixture(autouse=True)
def no_configuration_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_it_tells_of_a_server_and_then_of_its_ledger(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "app.py").write_text(FUNCTION)
    url = f"sqlite:///{tmp_path}/ledger.db"
    config = f'[retries]\nbase = "1ms"\n[ledger]\nurl = "{url}"\nspool = "{tmp_path}/spool"\n'
    with running(f"{tmp_path / 'app.py'}:batchstring", config=config) as server:

        def explained(request_id: str, *words: str) -> dict[str, Any]:
            code, out, err = typed("explain", request_id, "--admin", server.admin_url, "--json", *words)
            assert (code, err) == (0, "")
            said: dict[str, Any] = json.loads(out)
            return said

        assert server.post("/v1/inference", {"input": "a"}, {"x-request-id": "well"}).status == 200
        said = explained("well")
        assert (said["source"], said["facts"]["status"], said["facts"]["reason"]) == (
            "the server",
            "SUCCESS",
            "idle",
        )
        assert [step["text"] for step in said["steps"]][-1] == "It was answered."
        assert said["more_ms"] == 100.0
        assert server.post("/v1/inference", {"input": "bad"}, {"x-request-id": "ill"}).status == 502
        assert "Attempt 1 failed" in explained("ill")["steps"][1]["text"]
        assert server.post("/v1/inference", {"inputs": "a"}, {"x-request-id": "odd"}).status == 422
        assert "unknown field 'inputs'" in explained("odd", "--more", "1s")["steps"][0]["text"]

        code, out, _ = typed("explain", "well", "--admin", server.admin_url)
        assert code == 0
        assert out.startswith("well of model batchstring: SUCCESS")
        assert "With 100 ms more nothing would have changed" in out
        code, _, err = typed("explain", "never-was", "--admin", server.admin_url)
        assert (code, err.startswith("penstock: nobody knows a request 'never-was'")) == (2, True)
        code, _, err = typed("explain", "well", "--admin", server.admin_url, "--more", "100")
        assert (code, "write 100ms or 100s" in err) == (2, True)
    where = "--admin", server.admin_url
    assert "no admin plane" in typed("explain", "well", *where)[2]
    code, out, _ = typed("explain", "ill", *where, "--ledger", url)
    assert code == 0
    assert "It was answered with its failure: BACKEND_FAILED." in out


def test_a_dead_letter_is_known_when_its_request_is_forgotten(
    tmp_path: Path, typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "app.py").write_text(FUNCTION)
    with running(f"{tmp_path / 'app.py'}:batchstring", config='[retries]\nbase = "1ms"\n') as server:
        assert server.post("/v1/inference", {"input": "bad"}, {"x-request-id": "ill"}).status == 502
        [letter] = server.admin("/internal/dlq").json()
        monkeypatch.setattr("penstock.cli.explain.find", _forgetful)
        code, out, _ = typed("explain", "ill", "--admin", server.admin_url)
        assert code == 0
        assert f"as dead letter {letter['id']} tells" in out
        assert "Attempt 1 failed at 20" in out


def _forgetful(admin: str, path: str) -> Any:
    from penstock.cli.ask_admin import find

    return None if path.startswith("/internal/requests/") else find(admin, path)


def test_an_admin_plane_that_speaks_another_language_is_a_mistake_and_no_traceback(
    typed: Typed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("penstock.cli.explain.find", lambda admin, path: {"status": 7})
    code, _, err = typed("explain", "r1", "--admin", "http://127.0.0.1:1")
    assert code == 2
    assert "tells of requests in another way" in err
