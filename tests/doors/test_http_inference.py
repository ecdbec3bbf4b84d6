"""One request in, its answer out on the same connection."""

import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from server import PATIENT, Answer, Server, running

# A batch goes when it holds two: who shares one with whom is decided by the test, not by time.
PAIRS = f"""{PATIENT}
[models.pairs]
target = "sim:1ms"
policy = "window"
max_batch = 2
max_wait = "60s"
"""

SEVERAL = f"""{PATIENT}
[models.one]
target = "sim:1ms"
input = "text"
[models.two]
target = "sim:1ms"
version = "2024-05"
"""

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--workers", "2", config=PATIENT) as server:
        yield server


def together(server: Server, *bodies: object) -> list[Answer]:
    with ThreadPoolExecutor(len(bodies)) as pool:
        return list(pool.map(lambda body: server.post("/v1/inference", body), bodies))


def test_the_answer_has_the_output_the_ids_and_how_it_came_about(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "hällo 🙂", "model": "sim", "timeout_ms": 30_000})
    assert answer.status == 200
    said = answer.json()
    assert said["output"] == "hällo 🙂"
    assert said["request_id"] == said["task_id"] == answer.headers["x-request-id"]
    assert said["model"] == "sim"
    assert said["latency_ms"] > 0
    metadata = said["metadata"]
    assert set(metadata) == {"queue_ms", "inference_ms", "batch_size", "model_version", "cached"}
    assert metadata["batch_size"] == 1
    assert metadata["cached"] is False
    assert metadata["queue_ms"] + metadata["inference_ms"] <= said["latency_ms"]


def test_the_short_form_gives_output_id_and_latency(server: Server) -> None:
    answer = server.post("/api/inference", {"input": "hi"}, {"x-request-id": "short-1"})
    assert answer.status == 200
    said = answer.json()
    assert set(said) == {"output", "request_id", "latency_ms"}
    assert (said["output"], said["request_id"]) == ("hi", "short-1")
    assert answer.headers["x-request-id"] == "short-1"


def test_the_short_form_knows_no_other_field(server: Server) -> None:
    answer = server.post("/api/inference", {"input": "hi", "model": "sim"})
    assert answer.status == 422
    assert "'model'" in answer.json()["message"]


def test_a_client_may_leave_the_content_type_out(server: Server) -> None:
    assert server.call("POST", "/v1/inference", b'{"input": "plain"}').json()["output"] == "plain"


def test_a_thousand_askers_get_their_own_answers(server: Server) -> None:
    def ask(number: int) -> tuple[str, str]:
        said = server.post("/v1/inference", {"input": f"n{number}"}, {"x-request-id": f"id-{number}"}).json()
        return said["output"], said["request_id"]

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(1000)))
    assert answers == [(f"n{number}", f"id-{number}") for number in range(1000)]


@pytest.mark.parametrize("given", ["abc-123", "A.b:c+d=e@f_g", "x" * 128])
def test_a_good_request_id_is_the_clients_own(server: Server, given: str) -> None:
    answer = server.post("/v1/inference", {"input": "a"}, {"x-request-id": given})
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == given


@pytest.mark.parametrize("given", ["", "a b", "a/b", "ü", 'a"b', "x" * 129, "a\tb"])
def test_a_bad_request_id_is_replaced(server: Server, given: str) -> None:
    answer = server.call(
        "POST",
        "/v1/inference",
        b'{"input": "a"}',
        {"x-request-id": given.encode("latin-1").decode("latin-1")},
    )
    assert answer.status == 200
    made = answer.headers["x-request-id"]
    assert made == answer.json()["request_id"]
    assert re.fullmatch(r"[0-9a-f]{8,32}", made)


def test_refusals_carry_the_request_id_too(server: Server) -> None:
    answer = server.post("/v1/inference", {}, {"x-request-id": "mine"})
    assert answer.status == 422
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine"
    other = server.post("/v1/inference", {})
    assert other.headers["x-request-id"] == other.json()["request_id"] != ""


def test_server_timing_says_where_the_time_went(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "a"})
    timing = re.fullmatch(r"queue;dur=([\d.]+), infer;dur=([\d.]+)", answer.headers["server-timing"])
    assert timing is not None
    metadata = answer.json()["metadata"]
    assert float(timing[1]) == metadata["queue_ms"]
    assert float(timing[2]) == metadata["inference_ms"]


def test_a_trace_is_echoed_and_nonsense_is_not(server: Server) -> None:
    assert (
        server.post("/v1/inference", {"input": "a"}, {"traceparent": TRACE}).headers["traceparent"] == TRACE
    )
    assert "traceparent" not in server.post("/v1/inference", {"input": "a"}, {"traceparent": "00-x"}).headers


def test_a_trace_is_passed_on_to_an_http_backend() -> None:
    seen: list[str | None] = []

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append(self.headers["traceparent"])
            inputs = json.loads(self.rfile.read(int(self.headers["content-length"])))["inputs"]
            body = json.dumps({"outputs": [text.upper() for text in inputs]}).encode()
            self.send_response(200)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *details: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Endpoint) as endpoint:
        thread = threading.Thread(target=endpoint.serve_forever)
        thread.start()
        try:
            with running(f"http://127.0.0.1:{endpoint.server_port}/batch", config=PATIENT) as server:
                answer = server.post("/v1/inference", {"input": "traced"}, {"traceparent": TRACE})
                assert answer.json()["output"] == "TRACED"
        finally:
            endpoint.shutdown()
            thread.join()
    assert seen == [TRACE]


@pytest.mark.parametrize("timeout", [1e4, 50_000, 10**30, 10**400, None])
def test_any_whole_timeout_will_do_and_long_ones_are_cut_to_the_limit(
    server: Server, timeout: object
) -> None:
    assert server.post("/v1/inference", {"input": "a", "timeout_ms": timeout}).status == 200


@pytest.mark.parametrize("timeout", [0, -1, 1.5, "1000", True, [1]])
def test_a_timeout_that_is_no_positive_whole_number_is_refused(server: Server, timeout: object) -> None:
    answer = server.post("/v1/inference", {"input": "a", "timeout_ms": timeout})
    assert answer.status == 422
    assert "timeout_ms" in answer.json()["message"]


def test_equal_parameters_share_a_batch_in_whatever_order_and_others_do_not() -> None:
    with running(config=PAIRS) as server:
        answers = together(
            server,
            {"input": "a", "parameters": {"top": 1, "mode": {"x": 1, "y": [1, 2]}}},
            {"input": "b", "parameters": {"top": 2}},
            {"input": "c", "parameters": {"mode": {"y": [1, 2], "x": 1}, "top": 1}},
            {"input": "d", "parameters": {"top": 2}},
            {"input": "e", "parameters": {}},
            {"input": "f"},
            {"input": "g", "parameters": None},
            {"input": "h"},
        )
        assert [answer.json()["output"] for answer in answers] == list("abcdefgh")
        assert [answer.json()["metadata"]["batch_size"] for answer in answers] == [2] * 8
        assert server.metric("penstock_batches_total", model="pairs", reason="full") == 4


@pytest.mark.parametrize("parameters", [1, "x", [1], True])
def test_parameters_that_are_no_object_are_refused(server: Server, parameters: object) -> None:
    answer = server.post("/v1/inference", {"input": "a", "parameters": parameters})
    assert answer.status == 422
    assert "'parameters' must be an object" in answer.json()["message"]


@pytest.mark.parametrize(
    "raw", ['{"a": 1e999}', '{"a": ' + "[" * 100 + "]" * 100 + "}", '{"a": "' + "x" * 20_000 + '"}']
)
def test_parameters_that_nobody_could_use_are_refused_by_name(server: Server, raw: str) -> None:
    answer = server.post("/v1/inference", f'{{"input": "a", "parameters": {raw}}}'.encode())
    assert answer.status == 422
    assert answer.json()["message"].startswith("'parameters' ")


def test_an_unknown_model_is_404_and_the_known_ones_are_named(server: Server) -> None:
    answer = server.post("/v1/inference", {"input": "a", "model": "nope"})
    assert answer.status == 404
    assert answer.json()["error"] == "NOT_FOUND"
    assert "sim" in answer.json()["message"]


def test_several_models_are_told_apart_and_one_must_be_named() -> None:
    with running(config=SEVERAL) as server:
        one = server.post("/v1/inference", {"input": "text", "model": "one"}).json()
        assert (one["model"], one["output"], one["metadata"]["model_version"]) == ("one", "text", "")
        value = {"any": ["json", 1, None, True, 1.5]}
        two = server.post("/v1/inference", {"input": value, "model": "two"}).json()
        assert (two["model"], two["output"]) == ("two", value)
        assert two["metadata"]["model_version"] == "2024-05"
        nameless = server.post("/v1/inference", {"input": "text"})
        assert nameless.status == 422
        assert "one, two" in nameless.json()["message"]
        assert server.post("/api/inference", {"input": "text"}).status == 422
        wrong = server.post("/v1/inference", {"input": value, "model": "one"})
        assert wrong.status == 422
        assert "this model takes text" in wrong.json()["message"]


def test_the_config_says_which_tier_a_client_has() -> None:
    tenants = PAIRS + '[tenants.acme]\ntier = "enterprise"\n[tenants.hobby]\ntier = "free"\n'
    with running(config=tenants) as server, ThreadPoolExecutor(4) as pool:
        clients = {"acme": 0, "nobody": 1, "hobby": 2}
        waiting = [
            pool.submit(
                server.post,
                "/v1/inference",
                {"input": name, "client_id": name, "parameters": {"alone": name}},
                {"x-request-id": name},
            )
            for name in clients
        ]
        for name, rank in clients.items():
            said: dict[str, object] = {}
            while said.get("status") != "PENDING":
                said = server.admin(f"/internal/requests/{name}").json()
            assert (said["tenant"], said["tier"]) == (name, rank)
        for tier in ("enterprise", "paid", "free"):
            assert server.metric("penstock_queue_depth", model="pairs", tier=tier) == 1
        for name in clients:
            server.post("/v1/inference", {"input": name, "parameters": {"alone": name}})
        assert [answer.result().status for answer in waiting] == [200] * 3


@pytest.mark.parametrize("client", ["", "x" * 129, 5, ["a"]])
def test_a_client_id_is_1_to_128_characters(server: Server, client: object) -> None:
    answer = server.post("/v1/inference", {"input": "a", "client_id": client})
    assert answer.status == 422
    assert "client_id" in answer.json()["message"]
