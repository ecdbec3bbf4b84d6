"""The document and its page, true to what the server does."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.browser import browsing

from server import PATIENT, Server, running

TWO_MODELS = """
[models.upper]
target = "sim:1ms"
input = "text"
[models.anything]
target = "sim:1ms"
input = "json"
output = "json"
"""

DRAWN = """new Promise(resolve => {
  const look = () => document.querySelector('#delete, #cancel') ? resolve(document.body.innerText)
    : requestAnimationFrame(look);
  look();
})"""

TRY = """new Promise(resolve => {
  const card = document.querySelector('#infer');
  card.querySelector('textarea').value = JSON.stringify({input: 'asked from the page'});
  card.querySelector('input[name="X-Request-Id"]').value = 'from-a-browser';
  new MutationObserver(() => card.querySelector('.said') && resolve(card.querySelector('.answer').innerText))
    .observe(card, {childList: true, subtree: true});
  card.querySelector('button[type=submit]').click();
})"""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", config=PATIENT) as server:
        yield server


def test_the_document_names_every_route_with_its_errors(server: Server) -> None:
    answer = server.get("/openapi.json")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    document = answer.json()
    assert document["openapi"] == "3.1.0"
    operations = {
        f"{verb.upper()} {path}": item[verb]
        for path, item in document["paths"].items()
        for verb in item
        if verb in ("get", "post", "delete")
    }
    assert set(operations) == {
        "POST /v1/inference",
        "POST /api/inference",
        "POST /embed",
        "POST /rerank",
        "POST /predict",
        "POST /v1/rerank",
        "POST /v2/rerank",
        "POST /v1/embeddings",
        "POST /v1/completions",
        "GET /v1/models/{model}",
        "GET /v1/result/{task_id}",
        "DELETE /v1/result/{task_id}",
        "GET /v1/models",
        "GET /v1/stream",
        "GET /health",
        "GET /v2",
        "GET /v2/health/live",
        "GET /v2/health/ready",
        "GET /v2/models/{model}",
        "GET /v2/models/{model}/ready",
        "POST /v2/models/{model}/infer",
        "GET /v2/models/{model}/versions/{version}",
        "GET /v2/models/{model}/versions/{version}/ready",
        "POST /v2/models/{model}/versions/{version}/infer",
    }
    everything = {
        "200",
        "202",
        "400",
        "404",
        "408",
        "409",
        "413",
        "415",
        "422",
        "429",
        "500",
        "502",
        "503",
        "504",
    }
    assert set(operations["POST /v1/inference"]["responses"]) == everything
    unavailable = document["components"]["responses"]["Unavailable"]
    assert set(unavailable["headers"]) == {"X-Request-Id", "Retry-After"}


def test_every_reference_in_the_document_leads_somewhere(server: Server) -> None:
    document = server.get("/openapi.json").json()

    def references(part: object) -> Iterator[str]:
        if isinstance(part, dict):
            if "$ref" in part:
                yield part["$ref"]
            for value in part.values():
                yield from references(value)
        elif isinstance(part, list):
            for value in part:
                yield from references(value)

    found = set(references(document))
    assert len(found) > 15
    for reference in found:
        part = document
        for key in reference.removeprefix("#/").split("/"):
            part = part[key]


def test_with_several_models_the_document_asks_for_one_and_says_what_each_takes() -> None:
    with running(config=TWO_MODELS) as server:
        document = server.get("/openapi.json").json()
        assert "/api/inference" not in document["paths"]
        kinds = document["components"]["schemas"]["InferenceRequest"]["anyOf"]
        assert [kind["properties"]["model"]["enum"] for kind in kinds] == [["anything"], ["upper"]]
        assert all("model" in kind["required"] for kind in kinds)
        assert "type" not in kinds[0]["properties"]["input"]
        assert kinds[1]["properties"]["input"]["type"] == "string"


def test_the_page_needs_nothing_but_this_server(server: Server) -> None:
    page = server.get("/docs")
    assert page.status == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    text = page.body.decode()
    assert "default-src 'none'" in text
    assert "https://" not in text


def test_the_page_is_drawn_by_a_browser_without_help(server: Server, tmp_path: Path) -> None:
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000"]
    command += ["--disable-dev-shm-usage", f"--user-data-dir={tmp_path}"]  # a browser of its own
    drawn = subprocess.run(
        [*command, "--dump-dom", f"{server.url}/docs"], capture_output=True, text=True, check=True
    ).stdout
    for wanted in ("/v1/result/{task_id}", "respond-async", 'id="infer"', "Copy as curl", "Retry-After"):
        assert wanted in drawn


def test_the_form_on_the_page_really_sends_a_request(server: Server) -> None:
    async def body() -> tuple[str, str, list[str]]:
        async with browsing(f"{server.url}/docs") as page:
            text = await page.evaluate(DRAWN)
            answer = await page.evaluate(TRY)
            return text, answer, page.requested()

    text, answer, requested = asyncio.run(body())
    assert "Ask and wait for the answer" in text
    assert answer.startswith("200")
    assert "x-request-id: from-a-browser" in answer
    said = json.loads(answer[answer.index("{") : answer.rindex("}") + 1])
    assert said["output"] == "asked from the page"
    elsewhere = [url for url in requested if not url.startswith((server.url, "data:"))]
    assert elsewhere == []
