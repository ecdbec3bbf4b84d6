"""A task that is followed: server-sent events, as a client and as a browser hear them."""

import asyncio
import json
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest
from benchmarks.browser import browsing

from server import HUNG, PATIENT, Server, eventually, held, running

ASYNC = {"prefer": "respond-async"}
CONFIG = f"""{PATIENT}
[models.held]
target = "HELD"
default = true
[models.sim]
target = "sim:1ms"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(config=CONFIG.replace("HELD", held(tmp_path_factory.mktemp("held")))) as server:
        yield server


def shut(server: Server) -> None:
    """From now on the held model answers when the test says so."""
    (server.directory / "open").unlink(missing_ok=True)


def make_task(server: Server, text: str = "a", model: str = "held") -> str:
    answer = server.post("/v1/inference", {"input": text, "model": model}, ASYNC)
    assert answer.status == 202
    task_id: str = answer.json()["task_id"]
    return task_id


class Following:
    """A client that hears one event after the other."""

    def __init__(self, server: Server, task_id: str, **headers: str) -> None:
        self._connection = HTTPConnection(server.url.removeprefix("http://"), timeout=HUNG)
        self._connection.request("GET", f"/v1/result/{task_id}?stream=1", headers=headers)
        self.response = self._connection.getresponse()

    def __enter__(self) -> "Following":
        return self

    def __exit__(self, *_: object) -> None:
        self.response.close()
        self._connection.close()

    def event(self) -> dict[str, Any]:
        """The next event: its name, and its fields; empty if there is none."""
        said: dict[str, Any] = {}
        for line in iter(self.response.readline, b""):
            name, _, value = line.decode().strip().partition(": ")
            if not line.strip() and said:
                break
            if not name or name.startswith(":"):
                continue  # a comment, or the empty line after it
            said[name] = said.get(name, "") + value
        return said | {"data": json.loads(said["data"])} if said else said


def test_each_change_is_told_and_the_result_is_the_last(server: Server) -> None:
    shut(server)
    first = make_task(server)
    eventually(lambda: server.get(f"/v1/result/{first}").json()["status"] == "PROCESSING")
    second = make_task(server, "b")
    with Following(server, second) as following:
        assert following.response.headers["content-type"] == "text/event-stream"
        pending = following.event()
        assert (pending["event"], pending["data"]["status"]) == ("status", "PENDING")
        server.open()
        events = list(iter(following.event, {}))
    assert {each["event"] for each in events[:-1]} <= {"status"}
    result = events[-1]
    assert (result["event"], result["id"]) == ("result", "over")
    assert result["data"] == server.get(f"/v1/result/{second}").json()
    assert (result["data"]["status"], result["data"]["output"]) == ("SUCCESS", "b")


def test_a_task_that_goes_to_a_worker_is_told_to_be_processed(server: Server) -> None:
    shut(server)
    task_id = make_task(server)
    with Following(server, task_id) as following:
        while (event := following.event())["data"]["status"] != "PROCESSING":
            assert event["data"]["status"] == "PENDING"
        assert event["event"] == "status"
        assert server.call("DELETE", f"/v1/result/{task_id}").status == 200
        ended = following.event()
        assert (ended["event"], ended["data"]["status"]) == ("result", "CANCELLED")
        assert ended["data"]["error"]["error"] == "CANCELLED"
        assert following.event() == {}
    server.open()


def test_of_a_task_that_is_over_the_result_is_told_and_nothing_else(server: Server) -> None:
    text = "x" * 200_000 + "\n"
    task_id = make_task(server, text, "sim")
    assert server.get(f"/v1/result/{task_id}?wait_ms=30000").json()["status"] == "SUCCESS"
    with Following(server, task_id) as following:
        result = following.event()
        assert (result["event"], result["data"]["output"]) == ("result", text)
        assert following.event() == {}


def test_whoever_has_seen_the_end_is_told_to_stay_away(server: Server) -> None:
    with Following(server, "any", **{"Last-Event-ID": "over"}) as following:
        assert following.response.status == 204


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("nobody?stream=1", 404),
        ("nobody?stream=2", 422),
        ("nobody?stream=1&wait_ms=5", 404),
        ("nobody?stream=1&wait_ms=-1", 422),
        ("a?streams=1", 422),
    ],
)
def test_what_cannot_be_followed_is_answered_as_ever(server: Server, path: str, status: int) -> None:
    answer = server.get(f"/v1/result/{path}")
    assert (answer.status, answer.headers["content-type"]) == (status, "application/json")


def test_a_client_that_leaves_ends_nothing_but_its_own_answer(server: Server) -> None:
    shut(server)
    task_id = make_task(server)
    with Following(server, task_id) as following:
        assert following.event()["event"] == "status"
    server.open()
    assert server.get(f"/v1/result/{task_id}?wait_ms=30000").json()["output"] == "a"


LISTEN = """new Promise(resolve => {
  const source = new EventSource('/v1/result/%s?stream=1'), heard = [];
  source.addEventListener('status', event => heard.push(JSON.parse(event.data).status));
  source.addEventListener('result', event => heard.push(JSON.parse(event.data).output));
  source.onerror = () => { if (source.readyState == EventSource.CLOSED) resolve(heard); };
})"""


def test_a_page_in_a_browser_hears_it_and_does_not_ask_again(server: Server) -> None:
    server.open()
    task_id = make_task(server, "in a browser", "sim")

    async def run() -> Any:
        async with browsing(f"{server.url}/docs") as page:
            return await page.evaluate(LISTEN % task_id)

    assert asyncio.run(run())[-1:] == ["in a browser"]
