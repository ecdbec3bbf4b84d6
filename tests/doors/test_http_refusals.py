"""Every refusal has one shape, the right status, and says what to change."""

from collections.abc import Iterator

import pytest

from server import PATIENT, Answer, Server, running
from wire import talk

JSON_MODEL = f"""{PATIENT}
[models.any]
target = "sim:1ms"
input = "json"
output = "json"
"""

# One may wait, and it goes only when another would join it: whoever comes second finds the queue full.
ONE_PLACE = f"""{PATIENT}
[models.narrow]
target = "sim:1ms"
policy = "window"
max_batch = 2
max_wait = "60s"
[limits]
max_queue = 1
"""


# What waits goes only when another with the same parameters joins it. The times for a head and a body are short
# because the test waits for them to pass.
NARROW = f"""{PATIENT}
[models.narrow]
target = "sim:1ms"
input = "json"
output = "json"
policy = "window"
max_batch = 2
max_wait = "60s"
[limits]
max_body = "2KB"
max_depth = 3
max_lanes = 1
max_tasks = 1
body_timeout = "200ms"
header_timeout = "200ms"
"""
POST = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--input", "text", config=PATIENT) as server:
        yield server


def check_error(answer: Answer, status: int, code: str, *words: str) -> None:
    assert answer.status == status, answer.body
    said = answer.json()
    assert set(said) - {"retry_after_ms"} == {"error", "message", "request_id"}
    assert said["error"] == code
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-request-id"] == said["request_id"]
    for word in words:
        assert word in said["message"]
    assert ("retry_after_ms" in said) == ("retry-after" in answer.headers) == (status == 503)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b'{"input": "a"} x',
        b'{"input": "a",}',
        b"{'input': 'a'}",
        b'{"input": NaN}',
        b'{"input": "\\x"}',
        b'{"input": "a\x01"}',
        b'\xef\xbb\xbf{"input": "a"}',
        b'{"input": "\\ud800"}',
        b'{"input": "\\udc00 low"}',
        b'{"input": "a", "client_id": "\\ud800"}',
        b'{"input": "a", "parameters": {"a": "\\ud800"}}',
    ],
)
def test_what_is_not_json_is_malformed(server: Server, body: bytes) -> None:
    check_error(server.post("/v1/inference", body), 400, "MALFORMED_REQUEST", "not JSON")


def test_the_short_form_is_refused_in_the_same_way(server: Server) -> None:
    check_error(server.post("/api/inference", b"{"), 400, "MALFORMED_REQUEST", "not JSON")
    check_error(server.post("/api/inference", {"input": 1}), 422, "UNACCEPTABLE", "'input'")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"[]", ["object", "array"]),
        (b'"a"', ["object"]),
        (b"null", ["object"]),
        (b"{}", ["'input'"]),
        (b'{"model": "sim"}', ["'input'"]),
        (b'{"input": "a", "inputs": "b"}', ["'inputs'"]),
        (b'{"input": "a", "temperature": 1}', ["'temperature'"]),
        (b'{"input": 5}', ["'input'", "string"]),
        (b'{"input": null}', ["'input'", "string"]),
        (b'{"input": ["a"]}', ["'input'", "string"]),
        (b'{"input": "a", "model": 5}', ["model"]),
        (b'{"input": "a", "parameters": []}', ["'parameters'"]),
        (b'{"input": "\xff"}', ["UTF-8", "byte 11"]),
        (b'{"input": "\xed\xa0\x80"}', ["UTF-8"]),
        (b'{"input": "\xc0\x80"}', ["UTF-8"]),
        (b'{"input": "\\u0000"}', ["U+0000"]),
        (b'{"input": "a\\u001bb"}', ["U+001B"]),
        (b'{"input": "a\\bb"}', ["U+0008"]),
        (b'{"input": "\x7f"}', ["U+007F"]),
        ('{"input": "\x85"}'.encode(), ["U+0085"]),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ["'x'"]),
        (b'{"input": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", ["deep"]),
    ],
)
def test_what_is_json_but_not_acceptable_is_refused_by_name(
    server: Server, body: bytes, words: list[str]
) -> None:
    check_error(server.post("/v1/inference", body), 422, "UNACCEPTABLE", *words)


@pytest.mark.parametrize("text", ["tab\tline\nreturn\r", '\\u0000 "quoted" \\b', "漢字 🙂", "", " "])
def test_harmless_text_comes_back_as_it_went_in(server: Server, text: str) -> None:
    assert server.post("/v1/inference", {"input": text}).json()["output"] == text


def test_of_a_field_given_twice_the_last_counts(server: Server) -> None:
    assert server.post("/v1/inference", b'{"input": "a", "input": "b"}').json()["output"] == "b"


def test_control_characters_can_be_stripped() -> None:
    rule = "[limits]\ncontrol_characters = 'strip'"
    with running("sim:1ms", config=PATIENT + rule) as server:
        assert server.post("/v1/inference", {"input": "a\0\x1b[1mb\n\x7f"}).json()["output"] == "a[1mb\n"
    with running(config=JSON_MODEL + rule) as server:
        said = server.post("/v1/inference", {"input": {"k\0": ["\x85v", 1, None]}}).json()
        assert said["output"] == {"k": ["v", 1, None]}


def test_control_characters_can_be_allowed() -> None:
    with running("sim:1ms", config=PATIENT + "[limits]\ncontrol_characters = 'allow'") as server:
        text = "a\0\x1b\x7f\x85"
        assert server.post("/v1/inference", {"input": text}).json()["output"] == text


def test_json_input_has_a_limit_to_its_depth_and_is_searched_for_control_characters() -> None:
    with running(config=JSON_MODEL + "[limits]\nmax_depth = 8") as server:
        assert server.post("/v1/inference", b'{"input": ' + b"[" * 8 + b"]" * 8 + b"}").status == 200
        brackets = '{"input": ["' + "[{" * 50 + '"]}'
        assert server.post("/v1/inference", brackets.encode()).status == 200, "brackets in text have no depth"
        for deep in (b"[" * 9 + b"]" * 9, b'{"a":' * 9 + b"1" + b"}" * 9, b"[" * 100_000 + b"]" * 100_000):
            check_error(
                server.post("/v1/inference", b'{"input": ' + deep + b"}"), 422, "UNACCEPTABLE", "nested"
            )
        for dirty in ({"a\0": 1}, {"a": {"b": ["\0"]}}):
            check_error(server.post("/v1/inference", {"input": dirty}), 422, "UNACCEPTABLE", "U+0000")
        check_error(server.post("/v1/inference", b'{"input": ["\\u0000", 1e999]}'), 422, "UNACCEPTABLE")


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/inference/", "/V1/inference", "/v1//inference", "/v1/result", "/v1/result/", "/%00"],
)
def test_other_paths_are_not_found(server: Server, path: str) -> None:
    check_error(server.get(path), 404, "NOT_FOUND")
    check_error(server.call("POST", path, b"{}"), 404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/inference", "POST"),
        ("/api/inference", "POST"),
        ("/v1/result/some", "GET, DELETE"),
        ("/openapi.json", "GET"),
        ("/docs", "GET"),
    ],
)
def test_another_method_is_405_with_what_is_allowed(server: Server, path: str, allowed: str) -> None:
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        if method not in allowed:
            answer = server.call(method, path)
            check_error(answer, 405, "METHOD_NOT_ALLOWED", method, allowed.split(", ")[0])
            assert answer.headers["allow"] == allowed


def test_a_method_nobody_knows_is_400(server: Server) -> None:
    check_error(server.call("BREW", "/v1/inference"), 400, "MALFORMED_REQUEST", "method")


def test_a_full_queue_is_503_with_a_time_to_come_back() -> None:
    with running(config=ONE_PLACE) as server:
        assert server.post("/v1/inference", {"input": "a"}, {"prefer": "respond-async"}).status == 202
        assert server.health()["queue_depth"] == 1
        answer = server.post("/v1/inference", {"input": "b"})
        check_error(answer, 503, "SERVICE_OVERLOADED", "queue is full")
        assert int(answer.headers["retry-after"]) * 1000 >= answer.json()["retry_after_ms"]
        refused = {"model": "narrow", "code": "SERVICE_OVERLOADED"}
        assert server.metric("penstock_refused_requests_total", **refused) == 1


def test_what_the_backend_fails_is_502_and_counted() -> None:
    with running("sim:poison=POISON", config=PATIENT) as server:
        check_error(server.post("/v1/inference", {"input": "POISON"}), 502, "BACKEND_FAILED")
        assert server.metric("penstock_requests_total", model="sim", outcome="BACKEND_FAILED") == 1
        assert server.post("/v1/inference", {"input": "fine"}).status == 200


def test_a_batch_that_hangs_is_504() -> None:
    config = (
        PATIENT + 'first_batch = "100ms"\n'
    )  # this hang is in a first batch, which has 2 minutes by default
    with running("sim:hang=100%", "--processing-timeout", "100ms", config=config) as server:
        check_error(server.post("/v1/inference", {"input": "a"}), 504, "BACKEND_TIMEOUT")


def test_a_limit_that_is_reached_is_named() -> None:
    with running(config=NARROW) as server:
        check_error(
            server.post("/v1/inference", b"x" * 3000),
            413,
            "TOO_LARGE",
            "3000",
            "limits.max_body is 2000 bytes",
        )
        deep = {"input": [[[[1]]]]}
        check_error(server.post("/v1/inference", deep), 422, "UNACCEPTABLE", "3 levels", "limits.max_depth")
        asked = {"prefer": "respond-async"}
        assert server.post("/v1/inference", {"input": 1}, asked).status == 202
        second = server.post("/v1/inference", {"input": 1, "parameters": {"a": 1}}, asked)
        check_error(second, 503, "SERVICE_OVERLOADED", "limits.max_lanes is 1")
        third = server.post("/v1/inference", {"input": 1}, asked)
        check_error(third, 503, "SERVICE_OVERLOADED", "limits.max_tasks is 1")
        for sent, setting in (
            (POST, "header_timeout"),
            (POST + b"Content-Length: 9\r\n\r\n{", "body_timeout"),
        ):
            heard = talk(server.address, sent)
            assert heard.statuses == [408]
            assert f"0.2 s that limits.{setting} allows" in heard.json()["message"]
