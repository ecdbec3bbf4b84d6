"""What comes to each door is counted under the door's name, in `penstock_door_requests_total`."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import grpc
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families
from up_kit import up
from websockets.sync.client import connect

from grpc_calls import INFER, INFERENCE, OPTIONS, address_of, asked, method
from own_ports import free_port
from penstock.protos.messages import message
from server import PATIENT, call, eventually, running

# One output that all doors take: numbers for a text, one number for a pair of texts.
APP = """
def judge(inputs):
    return [[1.0, 0.5] if isinstance(each, str) else 0.5 for each in inputs]
"""
TENSOR = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["a"]}
# By door: a path, a body that is answered, and how many requests that is.
ASKED = [
    ("native", "/v1/inference", {"input": "a"}, 1),
    ("short", "/api/inference", {"input": "a"}, 1),
    ("openai", "/v1/embeddings", {"input": ["a", "b"]}, 2),
    ("open_inference", "/v2/models/judge/infer", {"inputs": [TENSOR]}, 1),
    ("tei", "/embed", {"inputs": ["a", "b", "c"]}, 3),
    ("rerank", "/v1/rerank", {"model": "judge", "query": "a", "documents": ["b", "c"]}, 2),
]
NOTHING = ("/nowhere", "/v1/files/none", "/proto/none")
WANTED = {
    **{(door, "SUCCESS"): number for door, _, _, number in ASKED},
    **{(door, "MALFORMED_REQUEST"): 1 for door, _, _, _ in ASKED},
    **{(door, "SUCCESS"): 1 for door in ("websocket", "grpc", "grpc_open_inference")},
    **{(door, "NOT_FOUND"): 1 for door in ("websocket", "grpc", "grpc_open_inference", "docs")},
}


@pytest.fixture
def app(tmp_path: Path) -> str:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "penstock.toml").write_text(PATIENT)
    return f"{tmp_path}/app.py:judge"


def counted(admin: str) -> Counter[tuple[str, str]]:
    """What a process shows on its page, by door and outcome."""
    text = call(admin, "GET", "/metrics").body.decode()
    return Counter(
        {
            (sample.labels["door"], sample.labels["outcome"]): int(sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "penstock_door_requests_total"
        }
    )


def ask_at_every_door(url: str, grpc_address: str) -> None:
    """Ask each door once for what it answers, and once for what it refuses."""
    for door, path, body, _ in ASKED:
        assert call(url, "POST", path, json.dumps(body).encode()).status == 200, door
        assert call(url, "POST", path, b"{").status == 400, door
    for path in NOTHING:
        assert call(url, "GET", path).status == 404
    with connect(f"{url.replace('http', 'ws')}/v1/stream") as socket:
        for said in ({"id": 1, "input": "a"}, {"id": 2, "input": "a", "model": "none"}):
            socket.send(json.dumps(said))
        answers = {(said := json.loads(socket.recv()))["id"]: said for _ in range(2)}
        assert answers[1]["output"] == [1.0, 0.5]
        assert answers[2]["error"] == "NOT_FOUND"
    with grpc.insecure_channel(grpc_address, OPTIONS) as channel:
        infer, infer_tensors = method(channel, INFER), method(channel, f"/{INFERENCE}/ModelInfer")
        assert json.loads(infer(asked(text="a")).json) == [1.0, 0.5]
        assert infer_tensors(tensors("judge")).outputs
        for call_it, said in ((infer, asked(text="a", model="none")), (infer_tensors, tensors("none"))):
            with pytest.raises(grpc.RpcError) as refused:
                call_it(said)
            assert refused.value.code() == grpc.StatusCode.NOT_FOUND


def tensors(model: str) -> Any:
    said = message("inference.ModelInferRequest")(model_name=model)
    said.inputs.add(name="text", datatype="BYTES", shape=[1]).contents.bytes_contents.append(b"a")
    return said


def test_each_door_counts_what_it_answers_and_what_it_refuses(app: str) -> None:
    with running(app, "--grpc-port", "0", "--files", "files", config=PATIENT) as server:
        ask_at_every_door(server.url, address_of(server))
        run_a_file(server.url)
        wanted = {
            **WANTED,
            ("", "NOT_FOUND"): 1,
            ("files", "NOT_FOUND"): 1,  # a file that is not there
            ("files", "SUCCESS"): 2,  # the lines of one that is
        }
        assert counted(server.admin_url) == wanted


def run_a_file(url: str) -> None:
    lines = [
        json.dumps(
            {"custom_id": name, "method": "POST", "url": "/v1/inference", "body": {"input": name}}
        ).encode()
        for name in ("x", "y")
    ]
    with openai.OpenAI(base_url=f"{url}/v1", api_key="any", max_retries=0) as client:
        file = client.files.create(file=("in.jsonl", b"\n".join(lines)), purpose="batch")
        endpoint: Any = "/v1/inference"
        batch = client.batches.create(input_file_id=file.id, endpoint=endpoint, completion_window="24h")
        eventually(lambda: client.batches.retrieve(batch.id).status == "completed")


def test_a_gateway_over_redis_counts_the_same_and_no_other_process_does(app: str) -> None:
    port = free_port()
    with up(app, "--grpc-port", str(port), "--config", app.replace("app.py:judge", "penstock.toml")) as it:
        ask_at_every_door(it.ports["gateway-1"], f"127.0.0.1:{port}")
        # Without a directory for files nothing is at /v1/files.
        assert counted(it.admins["gateway-1"]) == {**WANTED, ("", "NOT_FOUND"): 2}
        assert not counted(it.admins["batcher-1"])
        assert not counted(it.admins["worker-1"])
