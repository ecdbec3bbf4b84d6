"""Dead letters of `penstock serve`: the same commands, in one process."""

import json
from pathlib import Path
from typing import Any

from command_line import Typed, typed

from server import running

__all__ = ["typed"]

FUNCTION = """\
from pathlib import Path


def batchstring(inputs):
    if "bad" in inputs and not (Path(__file__).parent / "mended").exists():
        raise ValueError("cannot read bad")
    return [each.upper() for each in inputs]
"""


def test_dead_letters_are_listed_shown_retried_and_purged(tmp_path: Path, typed: Typed) -> None:
    (tmp_path / "app.py").write_text(FUNCTION)
    with running(f"{tmp_path / 'app.py'}:batchstring", config='[retries]\nbase = "1ms"\n') as server:

        def dlq(*words: str) -> str:
            code, out, err = typed("dlq", *words, "--admin", server.admin_url)
            assert (code, err) == (0, "")
            return out

        def letters() -> list[dict[str, Any]]:
            said: list[dict[str, Any]] = json.loads(dlq("list", "--json"))
            return said

        assert dlq("list") == "no dead letters\n"
        for name in ("dies", "dies-too"):
            body = {"input": "bad", "client_id": "anna"}
            assert server.post("/v1/inference", body, {"x-request-id": name}).status == 502
        newer, letter = letters()
        assert newer["request_id"] == "dies-too"
        assert {name: letter[name] for name in ("request_id", "model", "tenant", "attempts", "error")} == {
            "request_id": "dies", "model": "batchstring", "tenant": "anna", "attempts": 3,
            "error": "BACKEND_FAILED",
        }  # fmt: skip
        shown = json.loads(dlq("show", letter["id"]))
        assert (shown["input"], shown["time"]) == ('"bad"', letter["time"])
        assert "cannot read bad" in shown["details"]
        history = shown["history"]
        assert [(each["error"], each["batch_size"], each["worker"]) for each in history] == [
            ("BACKEND_FAILED", 1, "batchstring/0")
        ] * 3
        assert [each["time"] for each in history] == sorted(each["time"] for each in history)
        assert all("cannot read bad" in each["details"] for each in history)
        assert server.metric("penstock_dead_letters_total", model="batchstring") == 2
        lines = [json.loads(line) for line in server.log_lines() if '"dead letter"' in line]
        assert [(line["level"], line["model"], line["code"], line["attempts"]) for line in lines] == [
            ("warning", "batchstring", "BACKEND_FAILED", 3)
        ] * 2
        assert [line["id"] for line in lines] == [letter["id"], newer["id"]]
        assert "cannot read bad" not in json.dumps(lines)

        (tmp_path / "mended").touch()
        assert dlq("retry", letter["id"]) == "sent again; its result will be at /v1/result/dies\n"
        result = server.get("/v1/result/dies?client_id=anna&wait_ms=20000").json()
        assert (result["status"], result["output"]) == ("SUCCESS", "BAD")
        assert [each["request_id"] for each in letters()] == ["dies-too"]
        assert server.admin(f"/internal/dlq/{newer['id']}", "DELETE").status == 204
        assert dlq("list") == "no dead letters\n"

        (tmp_path / "mended").unlink()
        for name in ("one", "two"):  # tasks: their failure is kept under the name that the retry will have
            server.post("/v1/inference", {"input": "bad"}, {"prefer": "respond-async", "x-request-id": name})
            assert server.get(f"/v1/result/{name}?wait_ms=20000").json()["status"] == "FAILED"
        (tmp_path / "mended").touch()
        assert dlq("retry", "--all") == "sent again: 2\n"
        for name in ("one", "two"):
            assert server.get(f"/v1/result/{name}?wait_ms=20000").json()["output"] == "BAD"
        assert dlq("purge", "--yes") == "forgotten: 0\n"
        code, _, told = typed("dlq", "show", letter["id"], "--admin", server.admin_url)
        assert code == 2
        assert told.startswith(f"penstock: no dead letter '{letter['id']}'")
