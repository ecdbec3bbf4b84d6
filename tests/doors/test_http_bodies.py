"""A body is not trusted in its type, its size, its framing or its pace."""

import socket
from collections.abc import Iterator

import pytest

from server import HUNG, PATIENT, Server, running
from wire import listen, post, talk

BODY = b'{"input": "a"}'
LIMIT = 4096
HEAD = b"POST /v1/inference HTTP/1.1\r\nHost: test\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
CLOSING = CHUNKED.replace(b"Host", b"Connection: close\r\nHost")
# Each limit is short where it is what is tested, and nowhere else: a client that is merely slow is not refused.
LIMITS = PATIENT + f"[limits]\nmax_body = '{LIMIT}'\nheader_timeout = '60s'\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", config=LIMITS + "body_timeout = '60s'") as server:
        yield server


@pytest.fixture(scope="module")
def hurried() -> Iterator[Server]:
    with running("sim:1ms", config=LIMITS + "body_timeout = '300ms'") as server:
        yield server


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def sized(size: int) -> bytes:
    return b'{"input": "%s"}' % (b"x" * (size - 13))


@pytest.mark.parametrize(
    "kind",
    [
        "application/json",
        "Application/JSON",
        'application/json; charset="UTF-8"',
        "application/json ;charset=utf-8",
    ],
)
def test_json_in_utf_8_is_read(server: Server, kind: str) -> None:
    assert server.post("/v1/inference", BODY, {"content-type": kind}).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"content-type": "text/plain"},
        {"content-type": "application/xml"},
        {"content-type": "application/jsonp"},
        {"content-type": "application/x-www-form-urlencoded"},
        {"content-type": "application/json; charset=latin-1"},
        {"content-type": ""},
        {"content-encoding": "gzip"},
        {"content-encoding": "br"},
        {"content-encoding": "identity, gzip"},
    ],
)
def test_any_other_type_or_encoding_is_415(server: Server, headers: dict[str, str]) -> None:
    answer = server.post("/v1/inference", BODY, headers)
    assert answer.status == 415
    assert answer.json()["error"] == "UNSUPPORTED_MEDIA_TYPE"


def test_a_body_may_be_as_large_as_the_limit_and_not_a_byte_more(server: Server) -> None:
    assert server.post("/v1/inference", sized(LIMIT)).status == 200
    answer = server.post("/v1/inference", sized(LIMIT + 1))
    assert answer.status == 413
    assert answer.json()["error"] == "TOO_LARGE"
    assert str(LIMIT) in answer.json()["message"]


def test_a_chunked_body_is_counted_as_it_comes(server: Server) -> None:
    good = talk(
        server.address,
        CLOSING + chunk(sized(LIMIT)[:100]) + chunk(sized(LIMIT)[100:]) + b"0\r\n\r\n",
    )
    assert good.statuses == [200]
    heard = talk(server.address, CHUNKED + chunk(sized(LIMIT + 1)))
    assert heard.statuses == [413]
    assert heard.json()["error"] == "TOO_LARGE"


def test_a_length_beyond_the_limit_is_refused_before_anything_is_sent(server: Server) -> None:
    for length in (LIMIT + 1, 10**9, 10**17):
        heard = talk(server.address, post(b"", length=length))
        assert heard.statuses == [413]
        assert heard.closed, "what follows would be taken for the next request"


def test_who_expects_100_continue_is_refused_without_sending(server: Server) -> None:
    heard = talk(server.address, post(b"", "Expect: 100-continue", length=10**6))
    assert heard.statuses == [413]
    assert b"100 Continue" not in heard.data


@pytest.mark.parametrize(
    "begun",
    [post(b'{"inp', length=100), CHUNKED + chunk(b'{"inp'), CHUNKED + b"5", post(b"", length=10)],
    ids=["declared", "chunked", "inside a chunk size", "nothing"],
)
def test_a_body_that_does_not_come_is_408(hurried: Server, begun: bytes) -> None:
    heard = talk(hurried.address, begun)
    assert heard.statuses == [408]
    assert heard.json()["error"] == "BODY_TOO_SLOW"
    assert heard.closed


def test_a_head_that_does_not_come_is_closed() -> None:
    with running("sim:1ms", config="[limits]\nheader_timeout = '300ms'") as server:
        assert talk(server.address, HEAD).closed
        assert talk(server.address, b"").closed


@pytest.mark.parametrize(
    "broken",
    [
        CHUNKED + chunk(BODY) + b"ZZ\r\n",
        CHUNKED + chunk(BODY) + b"-1\r\n",
        CHUNKED + chunk(BODY) + b"fffffffffffffffff\r\n",
        CHUNKED + b"%x\r\n%sXX" % (len(BODY), BODY),
    ],
)
def test_a_broken_chunked_body_is_never_executed(server: Server, broken: bytes) -> None:
    heard = talk(server.address, broken)
    assert heard.statuses == [400]
    assert heard.json()["error"] == "MALFORMED_REQUEST"


def test_trailers_after_a_chunked_body_change_nothing(server: Server) -> None:
    trailer = b"X-Request-Id: from-the-trailer\r\nContent-Type: text/plain\r\n"
    body = CLOSING.replace(b"Host", b"X-Request-Id: mine\r\nHost") + chunk(BODY)
    heard = talk(server.address, body + b"0\r\n" + trailer + b"\r\n")
    assert heard.statuses == [200]
    assert heard.json()["request_id"] == "mine"


@pytest.mark.parametrize(
    "cut", [post(BODY, length=100), CHUNKED + chunk(BODY), CHUNKED + chunk(BODY) + b"9\r\nab"]
)
def test_a_body_that_is_cut_off_is_never_executed(server: Server, cut: bytes) -> None:
    done = server.metric("penstock_batched_requests_total", model="sim")
    heard = talk(server.address, cut, half_close=True)
    assert heard.statuses in ([400], [])
    assert heard.closed
    assert server.metric("penstock_batched_requests_total", model="sim") == done


def test_a_connection_serves_one_request_after_another_and_pipelined_ones_in_order(server: Server) -> None:
    with socket.create_connection(server.address, timeout=HUNG) as connection:
        for text in ("a", "b"):
            connection.sendall(post(b'{"input": "%s"}' % text.encode()))
            assert f'"output":"{text}"'.encode() in connection.recv(65536)
        last = ["Connection: close"]
        asked = [post(b'{"input": "p%d"}' % number, *(last if number == 9 else [])) for number in range(10)]
        connection.sendall(b"".join(asked))
        heard = listen(connection)
    assert heard.statuses == [200] * 10
    assert [f'"output":"p{number}"'.encode() in body for number, body in enumerate(heard.bodies)] == [
        True
    ] * 10


def test_nothing_of_all_this_has_troubled_the_servers(server: Server, hurried: Server) -> None:
    for each in (server, hurried):
        assert "Traceback" not in each.stderr()
        assert each.health()["waiting_clients"] == 0
