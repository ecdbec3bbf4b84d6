"""HTTP/2 as real clients speak it, over TLS, to a real process."""

import json
import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from h2.errors import ErrorCodes
from tls_kit import connected, encrypted

from certificates import Authority, Pair
from http2_client import Heard, Http2Client
from server import HUNG, PATIENT, Server, eventually, held

INFERENCE = "/v1/inference"
PAGE = "https://app.example"  # the origin of pages that may ask


class Caller(Http2Client):
    """A client on a socket."""

    def __init__(self, secured: ssl.SSLSocket) -> None:
        super().__init__()
        self._socket = secured
        self.closed = False
        self.until(lambda: self.machine.remote_settings.initial_window_size > 65_535)

    def until(self, holds: Callable[[], bool]) -> None:
        """Sends what there is to send, and listens, until it holds or the server closes."""
        while True:
            self.flush()
            if holds() or self.closed:
                return
            data = self._socket.recv(65536)
            self.closed = not data
            self.take(data)

    def flush(self) -> None:
        if said := self.outgoing():
            self._socket.sendall(said)

    def answer(self, number: int) -> Heard:
        self.until(lambda: self.streams[number].done)
        return self.streams[number]

    def infer(self, text: str) -> int:
        return self.ask("POST", INFERENCE, json.dumps({"input": text}).encode())


@contextmanager
def calling(server: Server, authority: Authority) -> Iterator[Caller]:
    with connected(server, authority.trusting(None, "h2")) as secured:
        assert secured.selected_alpn_protocol() == "h2"
        yield Caller(secured)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("http2")


@pytest.fixture(scope="module")
def pair(authority: Authority, folder: Path) -> Pair:
    return authority.issue(folder, "server")


@pytest.fixture(scope="module")
def server(pair: Pair) -> Iterator[Server]:
    with encrypted(pair, config=f"{PATIENT}[server]\ncors_origins = ['{PAGE}']\n") as server:
        yield server


def test_many_requests_on_one_connection_share_batches_and_each_gets_its_own_answer(
    authority: Authority, pair: Pair
) -> None:
    """A batch goes when it is full and not after some time, so that it does not matter how fast they come."""
    model = "[models.fifties]\ntarget = 'sim:5ms'\npolicy = 'window'\nmax_batch = 50\nmax_wait = '60s'"
    with encrypted(pair, None, config=PATIENT + model) as server, calling(server, authority) as caller:
        asked = {caller.infer(f"{index} " + "x" * 2048): index for index in range(200)}
        for number, index in asked.items():
            answer = caller.answer(number)
            assert answer.status == 200
            assert answer.json()["output"].startswith(f"{index} x")
            assert answer.headers["x-request-id"] == answer.json()["request_id"]
        assert server.metric("penstock_batches_total", model="fifties", reason="full") == 4


def test_a_page_of_a_listed_origin_may_read_answers_and_errors(server: Server, authority: Authority) -> None:
    with calling(server, authority) as caller:
        for body, status in ((b'{"input": "a"}', 200), (b"{}", 422)):
            headers = [("content-type", "application/json"), ("origin", PAGE)]
            answer = caller.answer(caller.ask("POST", INFERENCE, body, headers))
            assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, PAGE)
        asked = [("origin", PAGE), ("access-control-request-method", "POST")]
        preflight = caller.answer(caller.ask("OPTIONS", INFERENCE, None, asked))
        assert (preflight.status, preflight.headers["access-control-allow-origin"]) == (200, PAGE)
        assert "access-control-allow-origin" not in caller.answer(caller.infer("no page")).headers


def test_a_body_and_an_answer_of_a_megabyte_pass(server: Server, authority: Authority) -> None:
    text = "x" * 1_000_000
    with calling(server, authority) as caller:
        assert caller.answer(caller.infer(text)).json()["output"] == text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "code"),
    [
        ("POST", INFERENCE, b"{", 400, "MALFORMED_REQUEST"),
        ("POST", INFERENCE, b"{}", 422, "UNACCEPTABLE"),
        ("GET", INFERENCE, None, 405, "METHOD_NOT_ALLOWED"),
        ("GET", "/nowhere", None, 404, "NOT_FOUND"),
    ],
)
def test_what_is_refused_is_refused_in_the_one_shape(
    server: Server, authority: Authority, method: str, path: str, body: bytes | None, status: int, code: str
) -> None:
    with calling(server, authority) as caller:
        answer = caller.answer(caller.ask(method, path, body))
        assert (answer.status, answer.json()["error"]) == (status, code)
        assert answer.json()["request_id"] == answer.headers["x-request-id"]
        assert caller.answer(caller.infer("next")).status == 200


def test_a_body_that_is_too_large_is_refused_and_the_connection_serves_on(
    server: Server, authority: Authority
) -> None:
    with calling(server, authority) as caller:
        declared = caller.ask("POST", INFERENCE, b"x", (("content-length", "1048577"),), whole=False)
        sent = caller.ask("POST", INFERENCE, b"x" * 2**20, whole=False)
        caller.until(lambda: caller.machine.local_flow_control_window(sent) > 0)
        caller.send(sent, b"x")
        for number in (declared, sent):
            answer = caller.answer(number)
            assert (answer.status, answer.json()["error"]) == (413, "TOO_LARGE")
        assert caller.answer(caller.infer("next")).status == 200


def test_tasks_and_documents_are_served_too(server: Server, authority: Authority) -> None:
    with calling(server, authority) as caller:
        headers = (("content-type", "application/json"), ("prefer", "respond-async"))
        accepted = caller.answer(caller.ask("POST", INFERENCE, b'{"input": "later"}', headers))
        assert accepted.status == 202
        place = accepted.headers["location"]
        result = caller.answer(caller.ask("GET", f"{place}?wait_ms=30000", headers=()))
        assert result.json()["output"] == "later"
        assert caller.answer(caller.ask("GET", "/openapi.json", headers=())).status == 200


def test_the_same_key_gets_the_first_outcome_over_either_version(
    server: Server, authority: Authority
) -> None:
    server.tls = authority.trusting()
    first = server.post(INFERENCE, {"input": "once"}, {"idempotency-key": "k1"})
    with calling(server, authority) as caller:
        headers = (("content-type", "application/json"), ("idempotency-key", "k1"))
        again = caller.answer(caller.ask("POST", INFERENCE, b'{"input": "once"}', headers))
    assert again.headers["idempotency-replayed"] == "true"
    assert again.json()["request_id"] == first.json()["request_id"]


def curl(server: Server, ca: Path, number: int) -> list[str]:
    """So many requests at once on one connection; the version and status of each answer."""
    asked = [
        "curl", "-sS", "--http2", "--parallel", "--cacert", str(ca), "-w", "%{http_version} %{http_code}\n",
        "-o", "/dev/null", "--json", '{"input": "hello"}', f"{server.url}{INFERENCE}?[1-{number}]",
    ]  # fmt: skip
    done = subprocess.run(asked, check=True, capture_output=True, text=True, timeout=HUNG)
    return done.stdout.splitlines()


def test_curl_speaks_it_with_many_requests_at_once(
    server: Server, authority: Authority, folder: Path
) -> None:
    assert curl(server, authority.save(folder), 20) == ["2 200"] * 20


def test_a_client_that_is_told_to_go_elsewhere_gets_the_answers_that_are_under_way(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    config = PATIENT + "[server]\ndrain = '60s'\ndrain_grace = '2s'"
    with (
        ThreadPoolExecutor() as threads,
        encrypted(pair, held(folder), "--max-batch", "1", config=config) as server,
    ):
        answers = threads.submit(curl, server, authority.save(folder), 3)
        eventually(lambda: server.health()["waiting_clients"] == 3)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        server.open()
        assert answers.result(HUNG) == ["2 200"] * 3
        assert server.process.wait(HUNG) == 0


def test_a_stream_that_is_reset_or_cut_off_is_taken_out_of_the_queue(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    model = f"[models.held]\ntarget = '{held(folder)}'\nmax_batch = 1"
    with encrypted(pair, None, config=PATIENT + model) as server:

        def queued(number: int) -> Callable[[], bool]:
            return lambda: server.health()["queue_depth"] == number

        with calling(server, authority) as busy:
            busy.infer("at work")
            busy.flush()
            eventually(lambda: server.health()["waiting_clients"] == 1 and queued(0)())
            with calling(server, authority) as leaver:
                first, _ = leaver.infer("reset"), leaver.infer("cut off")
                leaver.flush()
                eventually(queued(2))
                leaver.machine.reset_stream(first, ErrorCodes.CANCEL)
                leaver.flush()
                eventually(queued(1))
            eventually(queued(0))
            assert server.metric("penstock_requests_total", model="held", outcome="CLIENT_LEFT") == 2


def test_what_was_accepted_is_answered_when_the_server_drains_and_the_client_is_sent_elsewhere(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    config = PATIENT + "[server]\ndrain = '60s'"
    with encrypted(pair, held(folder), config=config) as server, calling(server, authority) as caller:
        numbers = [caller.infer("hello") for _ in range(3)]
        caller.flush()
        eventually(lambda: server.health()["waiting_clients"] == 3)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        server.open()
        caller.until(lambda: bool(caller.goaways))
        assert [caller.streams[number].status for number in numbers] == [200, 200, 200]
        assert caller.goaways == [ErrorCodes.NO_ERROR]
        assert server.process.wait(HUNG) == 0


def test_every_door_is_open_to_http2(server: Server, authority: Authority) -> None:
    with calling(server, authority) as caller:
        asked = [
            caller.ask("POST", "/embed", json.dumps({"inputs": inputs}).encode())
            for inputs in ("one", ["one", "two"], [], ["x" * 400] * 200)
        ]
        one, two, none, many = [caller.answer(number) for number in asked]
        assert (one.json(), two.json()) == (["one"], ["one", "two"])
        assert many.json() == ["x" * 400] * 200
        assert (none.status, none.json()["error_type"]) == (400, "Empty")
        assert none.headers["x-request-id"]
        short = caller.ask("POST", "/api/inference", b'{"input": "a"}')
        assert caller.answer(short).json()["output"] == "a"
        known = caller.answer(caller.ask("GET", "/v1/models", headers=()))
        assert [model["id"] for model in known.json()["data"]] == ["sim"]
