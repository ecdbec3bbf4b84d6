"""What is settled before the first request: its bytes, its time, its asker."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import httptools
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.bench.options import parse_clients, parse_payload, parse_server, reach
from penstock.bench.plan import Shape, make_plan
from penstock.errors import UserMistake

SERVER = parse_server("http://localhost:8000")


class Parsed:
    """A request as a server reads it."""

    def __init__(self, raw: bytes) -> None:
        self.url, self.body, self.complete = b"", b"", False
        self.headers: dict[bytes, bytes] = {}
        self._parser = httptools.HttpRequestParser(self)
        self._parser.feed_data(raw)
        assert self.complete
        self.fields: dict[str, Any] = json.loads(self.body)

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.lower()] = value

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.complete = True


def parsed(shape: Shape, index: int = 0) -> Parsed:
    return Parsed(make_plan(shape, SERVER).request(index))


@given(st.integers(0, 300), st.sampled_from([None, 'a "model"']), st.sampled_from([None, 250]))
def test_a_request_is_whole_and_its_input_as_long_as_asked(
    size: int, model: str | None, timeout_ms: int | None
) -> None:
    shape = Shape(rate=10, duration=1, payload_size=size, model=model, timeout_ms=timeout_ms)
    request = parsed(shape)
    wanted = {"model": model, "timeout_ms": timeout_ms}
    assert len(request.fields.pop("input")) == size
    assert request.fields == {name: value for name, value in wanted.items() if value is not None}
    assert (request.url, request.headers[b"host"]) == (b"/v1/inference", b"localhost:8000")


def test_inputs_differ_so_that_no_cache_answers_for_the_model() -> None:
    plan = make_plan(Shape(rate=100, duration=1), SERVER)
    assert len({plan.request(index) for index in range(len(plan.times))}) == len(plan.times)


def test_a_payload_is_sent_as_it_is() -> None:
    assert parsed(Shape(rate=10, duration=1, payload={"text": "é", "n": [1]}), 3).fields == {
        "input": {"text": "é", "n": [1]}
    }


def test_clients_are_drawn_by_their_weights() -> None:
    plan = make_plan(Shape(rate=1000, duration=5, clients=(("acme", 0.2), ("free", 0.8))), SERVER)
    drawn = Counter(Parsed(plan.request(index)).fields["client_id"] for index in range(len(plan.times)))
    assert drawn["acme"] / drawn.total() == pytest.approx(0.2, abs=0.03)


def test_the_same_seed_gives_the_same_plan() -> None:
    shape = Shape(rate=100, duration=2, arrivals="bursty", clients=(("a", 1), ("b", 1)))
    assert make_plan(shape, SERVER) == make_plan(shape, SERVER)


def test_a_trace_gives_the_lengths_and_ends_where_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    rows = "".join(f"2023-11-16 18:17:{second:02},{second + 10},1\n" for second in range(10))
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + rows)
    plan = make_plan(Shape(rate=5, duration=30, warmup=0, arrivals="trace", trace=path), SERVER)
    assert [len(Parsed(plan.request(i)).fields["input"]) for i in range(10)] == [
        4 * (i + 10) for i in range(10)
    ]
    assert plan.duration == pytest.approx(2.0)
    assert "Microsoft" in plan.source
    with pytest.raises(UserMistake, match="nothing arrives after the warm-up"):
        make_plan(Shape(rate=5, duration=30, warmup=5, arrivals="trace", trace=path), SERVER)


def test_arrivals_that_do_not_exist_are_explained() -> None:
    with pytest.raises(UserMistake, match="poisson, uniform, bursty, day or trace, not 'weekly'"):
        make_plan(Shape(arrivals="weekly"), SERVER)
    with pytest.raises(UserMistake, match="needs --trace FILE"):
        make_plan(Shape(arrivals="trace"), SERVER)


@pytest.mark.parametrize(
    ("url", "host", "port", "path", "authority"),
    [
        ("http://a:8000", "a", 8000, "/v1/inference", "a:8000"),
        ("http://a/", "a", 80, "/v1/inference", "a"),
        ("a:8000", "a", 8000, "/v1/inference", "a:8000"),
        ("https://a/api/inference?x=1", "a", 443, "/api/inference?x=1", "a"),
        ("http://[::1]:8000", "::1", 8000, "/v1/inference", "[::1]:8000"),
    ],
)
def test_a_target_without_a_path_means_the_inference_endpoint(
    url: str, host: str, port: int, path: str, authority: str
) -> None:
    server = parse_server(url)
    assert (server.host, server.port, server.path, server.authority) == (host, port, path, authority)


def test_the_admin_plane_is_on_the_same_host() -> None:
    assert parse_server("http://[::1]:8000").admin == "http://[::1]:9000"


@pytest.mark.parametrize("url", ["ftp://a", "http://", "http://a:port", "http://a:99999"])
def test_what_is_no_target_is_explained(url: str) -> None:
    with pytest.raises(UserMistake, match=r"try http://127\.0\.0\.1:8000"):
        parse_server(url)


def test_an_unreachable_server_is_told_before_the_run() -> None:
    with pytest.raises(UserMistake, match=r"cannot reach 127\.0\.0\.1:1 \(Connection refused\)"):
        reach(parse_server("http://127.0.0.1:1"))


def test_clients_have_weights() -> None:
    assert parse_clients("acme=0.2, free=0.8") == (("acme", 0.2), ("free", 0.8))
    for wrong in ("acme", "acme=", "=1", "acme=-1", "acme=inf", ""):
        with pytest.raises(UserMistake, match="--tiers takes client ids"):
            parse_clients(wrong)


def test_a_payload_is_a_file_or_json(tmp_path: Path) -> None:
    text, data = tmp_path / "text.txt", tmp_path / "data.json"
    text.write_text("plain words")
    data.write_text('{"a": 1}')
    assert parse_payload(str(text)) == "plain words"
    assert parse_payload(str(data)) == {"a": 1}
    assert parse_payload('"hello"') == "hello"
    assert parse_payload(json.dumps("x" * 5000)) == "x" * 5000
    for wrong in ("no such file", "null"):
        with pytest.raises(UserMistake, match="--payload"):
            parse_payload(wrong)
