"""Penstock in front of endpoints of a known kind: another Penstock, by its doors; and endpoints that are busy."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from command_line import Typed, typed

from server import PATIENT, Server, running

__all__ = ["typed"]

FUNCTIONS = """
from penstock import Output
def shout(texts):
    return [text.upper() for text in texts]
def embed(texts, dimensions=2):
    return [Output([float(len(text))] * dimensions, tokens_used=len(text.split())) for text in texts]
def complete(texts, suffix=""):
    return [text.upper() + suffix for text in texts]
"""
UPSTREAM = """
[server]
grpc_port = 0
[models.embed]
target = "{file}:embed"
default = true
[models.complete]
target = "{file}:complete"
[models.shout]
target = "{file}:shout"
"""
IN_FRONT = """
[models.openai]
target = "openai://{http}/v1?model=embed"
default = true
[models.completions]
target = "openai://{http}/v1/completions?model=complete"
[models.tei]
target = "tei://{http}"
[models.oip]
target = "oip+http://{http}/shout"
[models.grpc]
target = "grpc://{grpc}/shout"
"""


@pytest.fixture(scope="module")
def upstream(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("functions") / "functions.py"
    file.write_text(FUNCTIONS)
    with running(config=UPSTREAM.format(file=file)) as serving:
        yield serving


@pytest.fixture(scope="module")
def server(upstream: Server) -> Iterator[Server]:
    found = re.search(r"grpc://\S+?:(\d+)", "\n".join(upstream.banner))
    assert found is not None, upstream.banner
    grpc = f"{urlsplit(upstream.url).hostname}:{found[1]}"
    with running(config=IN_FRONT.format(http=urlsplit(upstream.url).netloc, grpc=grpc)) as serving:
        yield serving


def test_ranks_and_labels_by_way_of_a_tei(tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(
        "def judge(inputs, raw_scores=False):\n"
        "    return [10 * raw_scores + (len(set(each[0]) & set(each[1])) if isinstance(each, list)\n"
        "        else len(each)) for each in inputs]\n"
    )
    with running(f"{file}:judge", config=PATIENT) as behind:
        target = f"tei://{urlsplit(behind.url).netloc}/predict"
        with running(target, "--input", "json", config=PATIENT) as server:
            said = {"query": "abc", "texts": ["x", "cab", "a"]}
            ranks = [(each["index"], each["score"]) for each in server.post("/rerank", said).json()]
            assert ranks == [(1, 3.0), (2, 1.0), (0, 0.0)]
            raw = server.post("/rerank", {**said, "raw_scores": True}).json()
            assert raw[0] == {"index": 1, "score": 13.0}
            best = server.post("/v2/rerank", {"query": "abc", "documents": ["a", "ab"], "top_n": 1}).json()
            assert [(each["index"], each["relevance_score"]) for each in best["results"]] == [(1, 2.0)]
            labels = server.post("/predict", {"inputs": [["four"], ["ab", "b"]]}).json()
            assert [[(each["label"], each["score"]) for each in of] for of in labels] == [
                [("LABEL_0", 4.0)], [("LABEL_0", 1.0)]
            ]  # fmt: skip


def test_embeddings_by_way_of_openai_s_door(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "two words"}).json()
    assert (answer["output"], answer["metadata"]["tokens_used"]) == ([9.0, 9.0], 2)
    longer = server.post("/v1/inference", {"input": "abc", "parameters": {"dimensions": 3}}).json()
    assert longer["output"] == [3.0, 3.0, 3.0]
    both = server.post("/v1/embeddings", {"input": ["a", "bb"]})
    assert [each["embedding"] for each in both.json()["data"]] == [[1.0, 1.0], [2.0, 2.0]]


def test_completions_by_way_of_openai_s_door(server: Server) -> None:
    asked = {"input": "once", "model": "completions", "parameters": {"suffix": "!"}}
    assert server.post("/v1/inference", asked).json()["output"] == "ONCE!"


def test_embeddings_by_way_of_tei_s_door(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "abc", "model": "tei"})
    assert answer.json()["output"] == [3.0, 3.0]


@pytest.mark.parametrize("model", ["oip", "grpc"])
def test_texts_by_way_of_the_doors_of_the_open_inference_protocol(server: Server, model: str) -> None:
    assert server.post("/v1/inference", {"input": "hé", "model": model}).json()["output"] == "HÉ"


def test_penstock_check_tries_the_endpoint(upstream: Server, tmp_path: Path, typed: Typed) -> None:
    host = urlsplit(upstream.url).netloc
    for target, code, said in (
        (f"openai://{host}/v1?model=embed", 0, ""),
        (f"openai://{host}/v1", 2, "the endpoint has these models: "),
        ("openai://gpu/v1?key=1", 2, "write it as openai://host:port/v1"),
    ):
        (tmp_path / "penstock.toml").write_text(f"[models.m]\ntarget = '{target}'\n")
        ended, out, err = typed("check", str(tmp_path / "penstock.toml"))
        assert ended == code, out + err
        assert said in out + err


class Endpoint(BaseHTTPRequestHandler):
    """Refuses the first calls at each path; `/long` for a minute, and never takes anything."""

    refused = 0

    def do_POST(self) -> None:
        said = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/long" or Endpoint.refused < 12:
            Endpoint.refused += 1
            self.send_response(429)
            self.send_header(*(("Retry-After", "60") if self.path == "/long" else ("retry-after-ms", "20")))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = json.dumps({"outputs": [text.upper() for text in said["inputs"]]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def endpoint() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listening.server_port}"
        finally:
            listening.shutdown()
            thread.join()


def test_a_busy_endpoint_slows_down_and_fails_nobody_who_can_wait() -> None:
    with endpoint() as url:
        config = f"""{PATIENT}
[models.short]
target = "{url}/short"
max_batch = 5
default = true
[models.long]
target = "{url}/long"
"""
        with running(config=config) as server, ThreadPoolExecutor(20) as threads:
            answers = list(
                threads.map(lambda n: server.post("/v1/inference", {"input": "x" * n}), range(1, 21))
            )
            assert [answer.status for answer in answers] == [200] * 20, {answer.body for answer in answers}
            assert [answer.json()["output"] for answer in answers] == ["X" * n for n in range(1, 21)]
            # The endpoint wants this one later than its deadline.
            refused = server.post("/v1/inference", {"input": "y", "model": "long", "timeout_ms": 30_000})
            assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
            assert int(refused.headers["Retry-After"]) > 30
            assert server.admin("/internal/dlq").json() == []
