"""`penstock explain --trace`: a file of a real server's spans tells what the server itself tells."""

import base64
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from command_line import Typed, typed
from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from tracing_kit import Keeping, keeping

from server import PATIENT, running

__all__ = ["typed"]

CONFIG = """
[models.pairs]
target = "{app}:pairs"
policy = "window"
max_batch = 2
max_wait = "60s"
[retries]
base = "1ms"
attempts = 2
[tracing]
endpoint = "{url}"
delay = "50ms"
"""
APP = """
def pairs(inputs):
    if "bad" in inputs:
        raise ValueError("cannot read bad")
    return inputs
"""
IDS = ("traceId", "spanId", "parentSpanId")
SAME = ("status", "model", "tenant", "batch_size", "with", "worker", "cached")


def as_otlp(message: Any) -> Any:
    """What protobuf's JSON says, with ids in hex, which OTLP wants."""
    if isinstance(message, dict):
        return {
            name: base64.b64decode(each).hex() if name in IDS else as_otlp(each)
            for name, each in message.items()
        }
    return [as_otlp(each) for each in message] if isinstance(message, list) else message


def lines_of(receiver: Keeping) -> list[str]:
    requests = [ExportTraceServiceRequest.FromString(body) for body in receiver.taken]
    return [
        json.dumps(as_otlp(MessageToDict(each, use_integers_for_enums=True)), separators=(",", ":"))
        for each in requests
    ]


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """A file of traces, and what the server itself told of each request."""
    folder = tmp_path_factory.mktemp("traces")
    (folder / "app.py").write_text(APP)
    with keeping() as receiver:
        config = PATIENT + CONFIG.format(app=folder / "app.py", url=receiver.url)
        with running(config=config) as server:

            def ask(request_id: str) -> int:
                body = {"input": "bad" if request_id == "ill" else request_id, "client_id": "acme"}
                if request_id == "odd":
                    body["model"] = "none"
                return server.post("/v1/inference", body, {"x-request-id": request_id}).status

            with ThreadPoolExecutor(2) as pool:
                assert [*pool.map(ask, ("well", "mate"))] == [200, 200]
                assert [*pool.map(ask, ("ill", "good"))] == [502, 200]
            assert ask("odd") == 404
            told = {
                name: server.admin(f"/internal/requests/{name}").json()
                for name in ("well", "ill", "good", "odd")
            }
        lines = lines_of(receiver)
    file = folder / "traces.jsonl"
    file.write_text("".join(f"{line}\n" for line in reversed(lines)) + '{"resourceSpans":[{"well')
    return file, told


def explained(typed: Typed, file: Path, request_id: str) -> dict[str, Any]:
    code, out, err = typed("explain", request_id, "--trace", str(file), "--json")
    assert (code, err) == (0, "")
    said: dict[str, Any] = json.loads(out)
    assert said["source"] == str(file)
    return said


@pytest.mark.parametrize("request_id", ["well", "good", "ill"])
def test_a_file_tells_what_the_server_tells(
    known: tuple[Path, dict[str, Any]], typed: Typed, request_id: str
) -> None:
    file, told = known
    own, facts = told[request_id], explained(typed, file, request_id)["facts"]
    usual = {"with": [], "batch_size": 0, "worker": "", "cached": False, "reason": ""}
    assert {name: facts[name] for name in SAME} == {name: own.get(name, usual.get(name)) for name in SAME}
    if request_id == "well":
        assert facts["reason"] == own["reason"] == "full"
    times, own_times = facts["timeline_ms"], own["timeline_ms"]
    moments = [name for name in ("sealed", "started", "ended", "answered") if times[name] is not None]
    assert moments == [name for name in ("sealed", "started", "ended", "answered") if name in own_times]
    assert [times[name] for name in moments] == sorted(times[name] for name in moments)
    assert [(each["error"], each["batch_size"]) for each in facts["attempts"]] == [
        (each["error"], each["batch_size"]) for each in own.get("attempts", [])
    ]
    if request_id == "ill":
        assert facts["error"]["error"] == own["error"]["error"] == "BACKEND_FAILED"


def test_it_says_so_in_the_same_sentences(known: tuple[Path, dict[str, Any]], typed: Typed) -> None:
    file, _ = known
    code, out, _ = typed("explain", "ill", "--trace", str(file))
    assert code == 0
    assert f"as {file} tells" in out
    assert "Attempt 1 failed on pairs/0, in a batch of 2: BACKEND_FAILED." in out
    assert "It was answered with its failure: BACKEND_FAILED." in out
    refused = explained(typed, file, "odd")
    assert refused["facts"]["status"] == "REFUSED"
    assert "was refused at once (NOT_FOUND)" in refused["steps"][0]["text"]


def test_one_document_will_do_too(known: tuple[Path, dict[str, Any]], typed: Typed, tmp_path: Path) -> None:
    file, _ = known
    parts = [
        part for line in file.read_text().splitlines()[:-1] for part in json.loads(line)["resourceSpans"]
    ]
    document = tmp_path / "traces.json"
    document.write_text(json.dumps({"resourceSpans": parts}, indent=2))
    assert explained(typed, document, "well")["facts"] == explained(typed, file, "well")["facts"]


def test_what_is_not_in_the_file_or_is_no_file_is_a_mistake_in_words(
    known: tuple[Path, dict[str, Any]], typed: Typed, tmp_path: Path
) -> None:
    file, _ = known
    code, _, err = typed("explain", "never-was", "--trace", str(file))
    assert (code, err.startswith("penstock: no span with penstock.request_id 'never-was'")) == (2, True)
    code, _, err = typed("explain", "well", "--trace", str(tmp_path / "none"))
    assert (code, "cannot be read: No such file" in err) == (2, True)
    (tmp_path / "other").write_text('{"resourceSpans": []}\n{"resourceSpans": "well"}\n')
    code, _, err = typed("explain", "well", "--trace", str(tmp_path / "other"))
    assert (code, "line 2, is not OTLP in JSON" in err) == (2, True)
