import json

import httptools
import pytest
from benchmarks.echo import TEXT, body
from benchmarks.heads import plain, realistic

from benchmarks import wrk
from penstock.errors import UserMistake

URL = "http://127.0.0.1:8000/v1/inference"


class Parsed:
    """A request as a server reads it."""

    def __init__(self, request: bytes) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.body, self.whole = b"", 0
        parser = httptools.HttpRequestParser(self)
        parser.feed_data(request)
        self.method = parser.get_method()

    def on_url(self, url: bytes) -> None:
        self.url = url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name] = value

    def on_body(self, part: bytes) -> None:
        self.body += part

    def on_message_complete(self) -> None:
        self.whole += 1


REALISTIC = [Parsed(request) for request in realistic(URL, body, ["Bearer a", "Bearer b"], count=200)]


def test_every_request_is_whole_and_asks_with_a_text_of_about_two_kilobytes() -> None:
    for each in REALISTIC:
        assert (each.method, each.url, each.whole) == (b"POST", b"/v1/inference", 1)
        assert TEXT.startswith(json.loads(each.body)["input"])
        assert 1948 <= len(each.body) - len(body("")) <= 2048


@pytest.mark.parametrize("name", [b"x-request-id", b"traceparent", b"x-forwarded-for"])
def test_what_a_proxy_adds_is_another_in_each_request(name: bytes) -> None:
    assert len({each.headers[name] for each in REALISTIC}) == len(REALISTIC)


def test_lengths_differ() -> None:
    assert len({each.headers[b"content-length"] for each in REALISTIC}) > 50


def test_a_proxy_writes_all_names_in_lower_case() -> None:
    assert all(name == name.lower() for each in REALISTIC for name in each.headers)


def test_credentials_are_used_in_turn() -> None:
    assert [each.headers[b"authorization"] for each in REALISTIC[:4]] == [b"Bearer a", b"Bearer b"] * 2


def test_without_credentials_nobody_says_who_asks() -> None:
    assert b"authorization" not in Parsed(realistic(URL, body, count=1)[0]).headers


def test_every_server_gets_the_same_bytes_in_every_run() -> None:
    assert realistic(URL, body, count=20) == realistic(URL, body, count=20)


def test_plain_requests_differ_in_their_credentials_alone() -> None:
    first, second = (Parsed(request) for request in plain(URL, body(), ["Bearer a", "Bearer b"]))
    assert first.body == second.body == body()
    differ = {name for name in first.headers if first.headers[name] != second.headers[name]}
    assert differ == {b"Authorization"}


def test_a_machine_without_wrk_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserMistake, match="wrk is not installed"):
        wrk.find()
