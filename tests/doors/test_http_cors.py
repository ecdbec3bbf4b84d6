"""Web pages from elsewhere: who may ask from a browser, and what it may read (`server.cors_origins`)."""

import asyncio
import json
from collections.abc import Iterator

import pytest
from benchmarks.browser import browsing

from server import PATIENT, Server, running

APP, OTHER = "https://app.example", "http://localhost:3000"
LISTED = f"[server]\ncors_origins = ['{APP}', '{OTHER}']\n[limits]\nmax_body = '1KB'\n{PATIENT}"
ALL = f"[server]\ncors_origins = ['*']\n{PATIENT}"
ASKED = {"access-control-request-method": "POST", "access-control-request-headers": "content-type"}
# From the page's own script: what a client of the API needs is sent, and what it needs is read.
FETCH = """fetch(%s + '/v1/inference', {method: 'POST', body: JSON.stringify({input: 'from a page'}), headers: {
  'Content-Type': 'application/json', 'Authorization': 'Bearer none', 'X-Request-Id': 'page-1', 'Prefer': 'wait',
  'Idempotency-Key': 'page'}}).then(
  answer => answer.json().then(said => [answer.status, said.output, answer.headers.get('x-request-id'),
    answer.headers.has('server-timing')]),
  error => [0, error.message])"""
# As OpenAI's client in a page sends, whatever else it may think of; and a tensor in binary, to and fro.
OPENAI = """fetch(%s + '/v1/completions', {method: 'POST', body: JSON.stringify({model: 'sim', prompt: 'a'}),
  headers: {'Content-Type': 'application/json', 'Authorization': 'Bearer none', 'X-Stainless-Lang': 'js',
    'X-Stainless-Retry-Count': '0', 'X-Stainless-Runtime': 'browser:chrome', 'OpenAI-Organization': 'acme'}}).then(
  answer => answer.json().then(said => said.choices[0].text), error => error.message)"""
TENSOR = """(() => {
  const head = JSON.stringify({parameters: {binary_data_output: true}, inputs: [
    {name: 'input', datatype: 'BYTES', shape: [1], parameters: {binary_data_size: 6}}]});
  return fetch(%s + '/v2/models/sim/infer', {method: 'POST', body: new Blob([head, '\\x02\\0\\0\\0hi']),
    headers: {'Content-Type': 'application/octet-stream', 'Inference-Header-Content-Length': head.length}}).then(
    answer => answer.text().then(said => [answer.status,
      said.slice(Number(answer.headers.get('inference-header-content-length')))]),
    error => error.message)
})()"""


@pytest.fixture(scope="module")
def listed() -> Iterator[Server]:
    with running("sim:1ms", config=LISTED) as server:
        yield server


def test_a_listed_origin_may_ask_and_read(listed: Server) -> None:
    for origin in (APP, OTHER):
        preflight = listed.call("OPTIONS", "/v1/inference", headers={"origin": origin, **ASKED})
        assert (preflight.status, preflight.body) == (200, b"")
        assert preflight.headers["access-control-allow-origin"] == origin
        allowed = preflight.headers["access-control-allow-headers"].split(", ")
        assert {"authorization", "content-type", "idempotency-key", "prefer", "x-request-id"} <= set(allowed)
        assert "POST" in preflight.headers["access-control-allow-methods"]
        assert "access-control-allow-credentials" not in preflight.headers
        answer = listed.post("/v1/inference", {"input": "a"}, {"origin": origin})
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, origin)
        assert answer.headers["vary"] == "Origin"
        exposed = set(answer.headers["access-control-expose-headers"].split(", "))
        assert {"x-request-id", "retry-after", "ratelimit-remaining", "server-timing", "location"} <= exposed


def allowed(server: Server, asked: str, origin: str = APP) -> list[str]:
    """What a page may send, of what it asks for."""
    fields = {"origin": origin, **ASKED, "access-control-request-headers": asked}
    preflight = server.call("OPTIONS", "/v1/embeddings", headers=fields)
    said = preflight.headers.get("access-control-allow-headers", "")
    return [name for name in said.split(", ") if name in {each.strip().lower() for each in asked.split(",")}]


def test_a_page_may_send_whatever_fields_it_asks_for(listed: Server) -> None:
    openai = "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-retry-count"
    assert allowed(listed, openai) == openai.split(",")
    assert allowed(listed, "Inference-Header-Content-Length, X-Mine") == [
        "inference-header-content-length",
        "x-mine",
    ]
    assert allowed(listed, "authorization,x-stainless-lang", "https://evil.example") == []


@pytest.mark.parametrize(
    "asked",
    ["x-a,x b", "x-a,x-é", 'x-a,x"', "x-a,(x)", "*,x-a", ",".join(["x-a"] * 65), "x-a," + "x" * 129, "x-a,,"],
)
def test_what_is_no_name_of_a_field_or_too_much_is_not_sent_back(listed: Server, asked: str) -> None:
    assert allowed(listed, asked) == []


def test_errors_can_be_read_too_also_those_of_a_body_that_is_too_long(listed: Server) -> None:
    said = {"origin": APP, "x-request-id": "mine"}
    answers = [
        (422, listed.post("/v1/inference", {"inputs": "a"}, said)),
        (404, listed.get("/nowhere", said)),
        (413, listed.post("/v1/inference", b"x" * 2000, said)),
    ]
    for status, answer in answers:
        assert (answer.status, answer.headers["access-control-allow-origin"]) == (status, APP)
        assert answer.headers["x-request-id"] == "mine"
    task = listed.post("/v1/inference", {"input": "a"}, {**said, "prefer": "respond-async"})
    assert (task.status, task.headers["access-control-allow-origin"]) == (202, APP)


def test_another_origin_is_told_no_and_its_answers_are_not_its_to_read(listed: Server) -> None:
    stranger = {"origin": "https://evil.example"}
    preflight = listed.call("OPTIONS", "/v1/inference", headers={**stranger, **ASKED})
    assert preflight.status == 403
    assert "server.cors_origins" in preflight.json()["message"]
    for answer in (preflight, listed.post("/v1/inference", {"input": "a"}, stranger)):
        assert "access-control-allow-origin" not in answer.headers
        assert answer.headers["vary"] == "Origin"


def test_off_nothing_is_said_and_a_preflight_is_no_request() -> None:
    with running("sim:1ms", config=PATIENT) as server:
        assert server.call("OPTIONS", "/v1/inference", headers={"origin": APP, **ASKED}).status == 405
        answer = server.post("/v1/inference", {"input": "a"}, {"origin": APP})
        assert answer.status == 200
        assert not {name for name in answer.headers if name.lower().startswith("access-control")}


def test_in_a_browser_a_page_from_elsewhere_asks_only_where_it_may() -> None:
    with (
        running("sim:1ms", config=ALL) as open_to_all,
        running("sim:1ms", config=PATIENT) as closed,
    ):

        async def ask() -> list[object]:
            """A page's origin is the server that it came from."""
            fetched = []
            for page_of, asked in ((closed, closed), (closed, open_to_all), (open_to_all, closed)):
                async with browsing(f"{page_of.url}/health") as page:
                    fetched.append(await page.evaluate(FETCH % json.dumps(asked.url)))
            return fetched

        own, elsewhere, blocked = asyncio.run(ask())
        assert own == elsewhere == [200, "from a page", "page-1", True]
        assert blocked == [0, "Failed to fetch"]


def test_in_a_browser_the_clients_of_other_servers_work_from_a_page_elsewhere() -> None:
    with running("sim:1ms", config=ALL) as open_to_all, running("sim:1ms", config=PATIENT) as closed:

        async def ask() -> list[object]:
            async with browsing(f"{closed.url}/health") as page:
                asked = json.dumps(open_to_all.url)
                return [await page.evaluate(OPENAI % asked), await page.evaluate(TENSOR % asked)]

        assert asyncio.run(ask()) == ["a", [200, "\x02\0\0\0hi"]]
