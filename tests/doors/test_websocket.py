"""The WebSocket door, asked by a real client and by a real browser."""

import asyncio
import contextlib
import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchmarks.browser import browsing
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from server import HUNG, PATIENT, PENSTOCK, Server, eventually, held, running
from tier_keys import tenants_in_file

MOST = 8
CONFIG = f"""{PATIENT}
[limits]
max_stream_asks = {MOST}
[models.upper]
target = "app.py:upper"
input = "json"
default = true
[models.text]
target = "app.py:upper"
input = "text"
[models.held]
target = "HELD"
"""
APP = """
def upper(inputs):
    if "bad" in inputs:
        raise ValueError("cannot read bad")
    return [each.upper() if isinstance(each, str) else each for each in inputs]
"""
# For the server's Python: as if the library had not been installed.
WITHOUT = """
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "websockets" else found(name, package)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("websocket")
    (folder / "app.py").write_text(APP)
    config = CONFIG.replace("HELD", held(folder)).replace("app.py", str(folder / "app.py"))
    with running(config=config) as server:
        yield server


def shut(server: Server) -> None:
    """From now on the held model answers when the test says so."""
    (server.directory / "open").unlink(missing_ok=True)


@contextlib.contextmanager
def streaming(server: Server, **options: Any) -> Iterator[ClientConnection]:
    url = server.url.replace("http", "ws", 1) + "/v1/stream"
    given = {"open_timeout": HUNG, "close_timeout": HUNG, "max_size": None, "proxy": None, **options}
    with connect(url, **given) as socket:
        yield socket


def say(socket: ClientConnection, **said: object) -> None:
    socket.send(json.dumps(said))


def hear(socket: ClientConnection) -> dict[str, Any]:
    heard: dict[str, Any] = json.loads(socket.recv(HUNG))
    return heard


def refusal(server: Server, **options: Any) -> tuple[int, dict[str, Any]]:
    """How the wish for a WebSocket was refused."""
    with pytest.raises(InvalidStatus) as refused, streaming(server, **options):
        pass
    response = refused.value.response
    assert response.body is not None
    return response.status_code, json.loads(response.body)


# ---- asks and answers ----------------------------------------------------------------------------------------


def test_an_answer_has_the_id_of_its_ask_and_all_that_the_native_door_tells(server: Server) -> None:
    native = server.post("/v1/inference", {"input": "a"}).json()
    with streaming(server) as socket:
        say(socket, id="mine", input="hello")
        answer = hear(socket)
    assert (answer["id"], answer["output"], answer["model"]) == ("mine", "HELLO", "upper")
    assert {*answer} == {*native, "id"}
    assert {*answer["metadata"]} == {*native["metadata"]}


def test_many_asks_share_batches_and_each_has_its_own_answer(server: Server) -> None:
    with streaming(server) as socket:
        answers = {}
        for first in range(0, 400, MOST):
            for number in range(first, first + MOST):
                say(socket, id=number, input=f"text {number}")
            for _ in range(MOST):
                answer = hear(socket)
                answers[answer["id"]] = answer["output"]
    assert answers == {number: f"TEXT {number}" for number in range(400)}


def test_an_answer_that_is_ready_does_not_wait_for_one_that_is_not(server: Server) -> None:
    shut(server)
    with streaming(server) as socket:
        say(socket, id="slow", input="a", model="held")
        say(socket, id="quick", input="b")
        assert hear(socket)["id"] == "quick"
        server.open()
        assert hear(socket)["id"] == "slow"


def test_an_ask_says_what_it_says_at_the_native_door(server: Server) -> None:
    shut(server)
    with streaming(server) as socket:
        say(socket, id=1, input={"any": ["json", 1.5]}, client_id="acme")
        assert hear(socket)["output"] == {"any": ["json", 1.5]}
        say(socket, id=2, input="grün\n", model="text", parameters={}, timeout_ms=60_000)
        assert hear(socket)["output"] == "GRÜN\n"
        say(socket, id=3, input="late", model="held", timeout_ms=1)
        assert hear(socket)["error"] in ("DEADLINE_EXCEEDED", "SERVICE_OVERLOADED")
        say(socket, id=4, input="x" * 500_000 + "é")
        assert hear(socket)["output"] == "X" * 500_000 + "É"
    server.open()


def test_a_failure_is_told_with_the_id_and_ends_nothing(server: Server) -> None:
    with streaming(server) as socket:
        say(socket, id=1, input="bad")
        failed = hear(socket)
        assert (failed["id"], failed["error"]) == (1, "BACKEND_FAILED")
        assert failed["request_id"]
        say(socket, id=2, input="good")
        assert hear(socket)["output"] == "GOOD"


@pytest.mark.parametrize(
    ("sent", "id_", "code", "words"),
    [
        ('{"id": 1, "inputs": "a"}', 1, "UNACCEPTABLE", "unknown field 'inputs'; known here: "),
        ('{"input": "a"}', None, "UNACCEPTABLE", "the field 'id' is missing"),
        ('{"id": [1], "input": "a"}', None, "UNACCEPTABLE", "'id' must be a string or a number"),
        ('{"id": "' + "x" * 200 + '", "input": "a"}', None, "UNACCEPTABLE", "at most 128 bytes"),
        ('{"id": 2}', 2, "UNACCEPTABLE", "the field 'input' is missing"),
        ('{"id": 3, "input": 7, "model": "text"}', 3, "UNACCEPTABLE", "'input' must be a string"),
        ('{"id": 4, "input": "a", "model": "none"}', 4, "NOT_FOUND", "no model 'none'"),
        ('{"id": 5, "input": "a", "timeout_ms": -1}', 5, "UNACCEPTABLE", "'timeout_ms'"),
        ('{"id": 6, "input": "a", "parameters": 1}', 6, "UNACCEPTABLE", "'parameters'"),
        ('{"id": 7, "input": "\\u0000"}', 7, "UNACCEPTABLE", "control character"),
        ('{"id": 8, "input": "' + "x\\\\" * 30_000 + '\\u0000"}', 8, "UNACCEPTABLE", "control character"),
        ('{"id": 9, "input": ' + "[" * 200 + "]" * 200 + "}", 9, "UNACCEPTABLE", "nested"),
        ("[" * 100_000, None, "UNACCEPTABLE", "the body must be a JSON object"),
        ("no json", None, "MALFORMED_REQUEST", "the body is not JSON"),
        ("", None, "MALFORMED_REQUEST", "the body is not JSON"),
        ("[]", None, "UNACCEPTABLE", "the body must be a JSON object"),
        ('{"cancel": {}}', None, "UNACCEPTABLE", "'id' must be a string or a number"),
        (b'{"id": 1, "input": "a"}', 1, "UNSUPPORTED_MEDIA_TYPE", "a message is JSON, in a frame of text"),
    ],
)
def test_what_is_not_acceptable_is_told_in_words_and_ends_nothing(
    server: Server, sent: str | bytes, id_: int | None, code: str, words: str
) -> None:
    with streaming(server) as socket:
        socket.send(sent)
        told = hear(socket)
        assert (told["id"], told["error"]) == (id_, code), told
        assert words in told["message"]
        say(socket, id="next", input="a")
        assert hear(socket)["output"] == "A"


def test_bytes_that_are_no_utf_8_are_refused(server: Server) -> None:
    with streaming(server) as socket:
        socket.send(b'{"id": 1, "input": "\xff"}', text=True)
        told = hear(socket)
        assert (told["error"], "UTF-8" in told["message"]) == ("UNACCEPTABLE", True)


def test_an_id_that_is_no_utf_8_is_not_given_back(server: Server) -> None:
    with streaming(server) as socket:
        socket.send(b'{"id": "\xff", "input": "a"}', text=True)
        told = hear(socket)
        assert (told["id"], told["error"], "UTF-8" in told["message"]) == (None, "UNACCEPTABLE", True)


def test_as_many_as_a_connection_may_have_in_flight_and_no_more(server: Server) -> None:
    shut(server)
    with streaming(server) as socket:
        for number in range(MOST):
            say(socket, id=number, input="a", model="held")
        say(socket, id=0, input="a", model="held")
        twice = hear(socket)
        assert (twice["id"], twice["error"]) == (0, "CONFLICT")
        say(socket, id="more", input="a")
        told = hear(socket)
        assert (told["id"], told["error"]) == ("more", "QUOTA_EXCEEDED")
        assert f"{MOST} asks are in flight on this connection" in told["message"]
        assert "limits.max_stream_asks" in told["message"]
        assert told["retry_after_ms"] > 0
        server.open()
        assert {hear(socket)["id"] for _ in range(MOST)} == {*range(MOST)}
        say(socket, id=0, input="again")
        assert hear(socket)["output"] == "AGAIN"


def test_an_ask_that_is_cancelled_is_answered_so_and_its_id_is_free(server: Server) -> None:
    shut(server)
    with streaming(server) as socket:
        say(socket, id="a", input="a", model="held")
        say(socket, cancel="a")
        say(socket, cancel="nobody")
        told = hear(socket)
        assert (told["id"], told["error"]) == ("a", "CANCELLED")
        server.open()
        say(socket, id="a", input="b")
        assert hear(socket)["output"] == "B"


def test_asks_of_a_client_that_leaves_are_taken_back(server: Server) -> None:
    shut(server)
    with streaming(server) as socket:
        for number in range(MOST):
            say(socket, id=number, input="a", model="held")
        say(socket, id="read", input="a", model="none")
        assert hear(socket)["id"] == "read"
    eventually(lambda: server.health()["waiting_clients"] == 0)
    server.open()


# ---- who asks ------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    file = tmp_path_factory.mktemp("keys") / "keys"
    return {**tenants_in_file(file, {"acme": "paid", "beta": "free"}), "file": str(file)}


@pytest.fixture(scope="module")
def keyed(keys: dict[str, str]) -> Iterator[Server]:
    config = f"""{PATIENT}
[server]
cors_origins = ["https://app.example"]
[auth]
mode = "keys"
keys_file = "{keys["file"]}"
[tiers]
default = "paid"
[tiers.levels.paid]
rank = 0
[tiers.levels.free]
rank = 1
requests_per_minute = 3
[models.sim]
target = "sim:1ms"
"""
    with running(config=config) as server:
        yield server


def served(socket: ClientConnection) -> bool:
    say(socket, id=1, input="a")
    return hear(socket).get("output") == "a"


def test_a_key_is_given_in_a_header_as_a_subprotocol_or_in_the_first_message(
    keyed: Server, keys: dict[str, str]
) -> None:
    key = keys["acme"]
    for headers in ({"Authorization": f"Bearer {key}"}, {"X-API-Key": key}):
        with streaming(keyed, additional_headers=headers) as socket:
            assert served(socket)
    with streaming(keyed, subprotocols=[Subprotocol("penstock"), Subprotocol(f"bearer.{key}")]) as socket:
        assert socket.subprotocol == "penstock", "the key is not sent back"
        assert served(socket)
    with streaming(keyed) as socket:
        say(socket, authorization=f"Bearer {key}")
        assert served(socket)


def test_a_wrong_key_is_refused_wherever_it_stands(keyed: Server, keys: dict[str, str]) -> None:
    wrong = keys["acme"][:-1] + ("a" if keys["acme"][-1] != "a" else "b")
    assert refusal(keyed, additional_headers={"Authorization": f"Bearer {wrong}"})[0] == 401
    offered = [Subprotocol("penstock"), Subprotocol(f"bearer.{wrong}")]
    assert refusal(keyed, subprotocols=offered)[0] == 401
    both = {"Authorization": f"Bearer {keys['acme']}"}
    assert refusal(keyed, subprotocols=offered, additional_headers=both)[0] == 401
    with streaming(keyed) as socket:
        say(socket, authorization=f"Bearer {wrong}")
        assert hear(socket)["error"] == "UNAUTHORIZED"
        with pytest.raises(ConnectionClosed) as ended:
            socket.recv(HUNG)
    assert ended.value.rcvd is not None
    assert ended.value.rcvd.code == 1008


@pytest.mark.parametrize("first", ['{"id": 1, "input": "a"}', "nonsense", '{"authorization": 1}', b"\xff"])
def test_whoever_does_not_say_first_who_asks_is_heard_no_further(keyed: Server, first: str | bytes) -> None:
    with streaming(keyed) as socket:
        socket.send(first)
        told = hear(socket)
        assert (told["id"], told["error"]) == (None, "UNAUTHORIZED")
        assert "say who asks first" in told["message"]
        with pytest.raises(ConnectionClosed):
            socket.recv(HUNG)


def test_a_key_that_is_revoked_is_good_no_more_on_an_open_connection_either(
    keyed: Server, keys: dict[str, str], tmp_path: Path
) -> None:
    made = tenants_in_file(Path(keys["file"]), {"gone": "paid"})["gone"]

    def known() -> bool:
        return keyed.post("/v1/inference", {"input": "a"}, {"x-api-key": made}).status == 200

    eventually(known)
    with streaming(keyed, additional_headers={"X-API-Key": made}) as socket:
        assert served(socket)
        revoke(keys["file"], made)
        eventually(lambda: not known())
        say(socket, id=2, input="a")
        told = hear(socket)
        assert (told["id"], told["error"]) == (2, "UNAUTHORIZED")
        say(socket, authorization=f"Bearer {keys['acme']}")
        assert served(socket), "a client may go on with another key"


def revoke(file: str, key: str) -> None:
    command = [str(PENSTOCK), "keys", "revoke", key.split("_")[1], "--keys", file]
    subprocess.run(command, check=True, capture_output=True, timeout=HUNG)


def test_a_tenant_is_kept_to_its_quota_whichever_door_it_comes_by(
    keyed: Server, keys: dict[str, str]
) -> None:
    header = {"Authorization": f"Bearer {keys['beta']}"}
    assert keyed.post("/v1/inference", {"input": "a"}, header).status == 200
    with streaming(keyed, additional_headers=header) as socket:
        assert served(socket)
        socket.send("nonsense")
        assert hear(socket)["error"] == "MALFORMED_REQUEST", "and it counts, as anywhere"
        say(socket, id=1, input="a")
        told = hear(socket)
        assert (told["error"], told["retry_after_ms"] > 0) == ("QUOTA_EXCEEDED", True)


def test_a_page_from_elsewhere_may_not_connect_unless_it_is_listed(
    keyed: Server, keys: dict[str, str]
) -> None:
    header = {"Authorization": f"Bearer {keys['acme']}"}
    own = keyed.url
    for origin in ("https://app.example", own):
        with streaming(keyed, additional_headers=header, origin=Origin(origin)) as socket:
            assert served(socket)
    for origin in ("https://evil.example", "null", own.replace("http", "https", 1) + "1"):
        status, said = refusal(keyed, additional_headers=header, origin=Origin(origin))
        assert (status, said["error"]) == (403, "FORBIDDEN")
        assert "server.cors_origins" in said["message"]


# ---- wishes that are not granted -----------------------------------------------------------------------------


def test_a_request_that_does_not_wish_for_websocket_is_told_to(server: Server) -> None:
    answer = server.get("/v1/stream")
    assert (answer.status, answer.json()["error"]) == (426, "UPGRADE_REQUIRED")
    assert (answer.headers["upgrade"], answer.headers["sec-websocket-version"]) == ("websocket", "13")
    assert server.post("/v1/stream", {"input": "a"}).status == 405


def test_a_subprotocol_that_nobody_knows_is_refused(server: Server) -> None:
    status, said = refusal(server, subprotocols=[Subprotocol("chat")])
    assert (status, said["error"]) == (400, "MALFORMED_REQUEST")
    assert "'penstock'" in said["message"]


def test_a_door_that_is_closed_is_not_there() -> None:
    with running("sim:1ms", config="[doors]\nwebsocket = false\n") as server:
        assert refusal(server)[0] == 404
        assert "/v1/stream" not in server.get("/openapi.json").json()["paths"]


def test_without_its_library_the_door_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(WITHOUT)
    with running("sim:1ms", environment={"PYTHONPATH": str(tmp_path)}) as server:
        status, said = refusal(server)
        assert (status, said["error"]) == (501, "NOT_INSTALLED")
        assert "pip install 'penstock[ws]'" in said["message"]
        assert server.post("/v1/inference", {"input": "a"}).status == 200


# ---- the end -------------------------------------------------------------------------------------------------


def test_a_server_that_stops_says_good_bye_answers_what_it_owes_and_ends_the_connection(
    tmp_path: Path,
) -> None:
    with running(held(tmp_path), config=PATIENT) as server, streaming(server) as socket:
        say(socket, id=1, input="a")
        eventually(lambda: server.health()["waiting_clients"] == 1)
        server.process.send_signal(signal.SIGTERM)
        assert "shutting down" in hear(socket)["goodbye"]
        server.open()
        assert hear(socket)["output"] == "a"
        with pytest.raises(ConnectionClosed) as ended:
            socket.recv(HUNG)
        assert ended.value.rcvd is not None
        assert (ended.value.rcvd.code, ended.value.rcvd.reason) == (
            1001,
            "this server is shutting down: connect again",
        )
        assert server.process.wait(HUNG) == 0


# ---- a browser -----------------------------------------------------------------------------------------------

ASK = """new Promise((resolve, reject) => {
  const socket = new WebSocket(location.origin.replace('http', 'ws') + '/v1/stream', %s);
  const heard = [];
  socket.onopen = () => ['a', 'b', 'c'].forEach((input, id) => socket.send(JSON.stringify({id, input})));
  socket.onmessage = event => { if (heard.push(JSON.parse(event.data)) == 3) socket.close(1000, 'enough'); };
  socket.onclose = event => resolve([event.code, heard.map(each => [each.id, each.output])]);
})"""


def in_browser(url: str, script: str) -> Any:
    async def run() -> Any:
        async with browsing(f"{url}/docs") as page:
            return await page.evaluate(script)

    return asyncio.run(run())


def test_a_page_in_a_browser_asks_and_is_answered(keyed: Server, keys: dict[str, str]) -> None:
    code, heard = in_browser(keyed.url, ASK % json.dumps(["penstock", f"bearer.{keys['acme']}"]))
    assert (code, sorted(heard)) == (1000, [[0, "a"], [1, "b"], [2, "c"]])
