"""What `/internal/overview` and `/internal/stream` tell of a real server, and over Redis of a whole
installation."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from aiohttp import ClientSession
from benchmarks.browser import Page
from page_kit import column, looking, shows_what_is_counted, until
from up_kit import Up, up

from penstock.admin.stream import MOST
from server import PATIENT, Server, eventually, running

MODEL = f"""{PATIENT}
[models.embed]
target = "sim:1ms"
input = "text"
"""
PICKY = """
def batch(inputs):
    if "bad" in inputs:
        raise ValueError("cannot read bad")
    return inputs
"""
TOKEN = "a-token-of-at-least-so-many-letters"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running("sim:1ms", "--workers", "2", "--input", "text", config=PATIENT) as server:
        for number in range(20):
            assert server.post("/v1/inference", {"input": str(number)}).status == 200
        yield server


async def events(session: ClientSession, url: str, **headers: str) -> AsyncIterator[tuple[str, Any]]:
    """Each event of the stream: its name, and what it says."""
    async with session.get(f"{url}/internal/stream", headers=headers) as answer:
        assert answer.status == 200, await answer.text()
        assert answer.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in answer.content:
            field, _, said = line.decode().rstrip("\n").partition(": ")
            if field == "event":
                name = said
            elif field == "data":
                yield name, json.loads(said)


def test_its_figures_are_those_of_the_metrics(server: Server) -> None:
    said = server.admin("/internal/overview").json()
    [model] = said["models"]
    assert (said["role"], said["verdict"]["level"], said["processes"]) == ("serve", "good", [])
    assert model["outcomes"]["SUCCESS"] == server.metric(
        "penstock_requests_total", model="sim", outcome="SUCCESS"
    )
    assert model["standing"]["max_batch"] == server.metric("penstock_max_batch_size", model="sim")
    assert model["standing"]["curve"][0][0] == 1
    assert model["policy_reason"].startswith("2 workers start out of step")
    health = server.health()["models"]["sim"]
    assert (health["policy"], health["policy_reason"]) == ("paced", model["policy_reason"])
    [told] = [json.loads(line) for line in server.log_lines() if "policy in force" in line][:1]
    assert (told["model"], told["policy"]) == ("sim", "paced")
    assert told["why"].startswith("no batch has been seen yet")
    assert [worker["worker"] for worker in said["workers"]] == ["sim/0", "sim/1"]


def test_the_stream_begins_with_the_last_hour_and_goes_on_with_what_is_now(server: Server) -> None:
    async def body() -> list[tuple[str, Any]]:
        heard = []
        async with ClientSession() as session:
            async for event in events(session, server.admin_url):
                heard.append(event)
                if len(heard) == 3:
                    break
        return heard

    heard = asyncio.run(body())
    assert [name for name, _ in heard] == ["hour", "overview", "overview"]
    assert isinstance(heard[0][1], list)
    assert heard[1][1]["at"] < heard[2][1]["at"]


def test_so_many_may_look_and_who_leaves_makes_room(server: Server) -> None:
    async def body() -> int:
        async with ClientSession() as session:
            looking = [events(session, server.admin_url) for _ in range(MOST)]
            for each in looking:
                await anext(each)
            async with session.get(f"{server.admin_url}/internal/stream") as answer:
                status = answer.status
                assert "close a page" in (await answer.json())["message"]
            # Streams do not count as requests in hand: everything else is answered as before.
            async with session.get(f"{server.admin_url}/internal/health") as answer:
                assert answer.status == 200
            return status

    assert asyncio.run(body()) == 503

    def again() -> bool:
        async def one() -> bool:
            async with (
                ClientSession() as session,
                session.get(f"{server.admin_url}/internal/stream") as answer,
            ):
                return answer.status == 200

        return asyncio.run(one())

    eventually(again)


def test_the_page_needs_no_token_and_what_it_shows_does() -> None:
    with running(config=MODEL, environment={"PENSTOCK_SERVER_ADMIN_TOKEN": TOKEN}) as server:
        page = server.admin("/")
        assert page.status == 200
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        for path in ("/internal/overview", "/internal/stream", "/internal/dlq"):
            assert server.admin(path).status == 401
        assert server.admin("/internal/overview", headers={"authorization": f"Bearer {TOKEN}"}).status == 200
        assert server.admin("/page/uPlot.LICENSE").status == 401  # only the files of the page are served


@pytest.fixture(scope="module")
def installation(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("function")
    (folder / "picky.py").write_text(PICKY)
    (folder / "penstock.toml").write_text(f"{PATIENT}[retries]\nbase = '1ms'\n")
    options = "--config", str(folder / "penstock.toml")
    with up(f"{folder / 'picky.py'}:batch", *options, gateways=2, batchers=2, workers=2) as installation:
        for number in range(20):
            gateway = f"gateway-{1 + number % 2}"
            answer = installation.ask(gateway, "POST", "/v1/inference", json.dumps({"input": "x"}).encode())
            assert answer.status == 200
        yield installation


@pytest.mark.parametrize("asked", ["gateway-1", "gateway-2", "batcher-1", "worker-1"])
def test_over_redis_every_process_shows_the_whole_installation(installation: Up, asked: str) -> None:
    said = installation.admin_of(asked, "/internal/overview").json()
    [model] = said["models"]
    assert model["outcomes"] == {"SUCCESS": 20}
    assert (model["workers"], model["healthy"]) == (2, 2)
    assert model["standing"]["curve"]
    assert sorted(each["role"] for each in said["processes"]) == sorted(["gateway", "batcher", "worker"] * 2)
    assert all(each["told"] for each in said["processes"] if each["role"] != "worker")
    assert said["verdict"]["level"] == "good", said["verdict"]
    assert len(said["workers"]) == 2
    # The heartbeats bring it a moment later than the overview, which asks all processes anew.
    assert model["policy_reason"].startswith("2 workers start out of step")

    def health() -> tuple[str, str]:
        found = installation.admin_of(asked, "/internal/health").json()["models"][model["name"]]
        return found["policy"], found["policy_reason"]

    eventually(lambda: health() == ("paced", model["policy_reason"]))


def test_the_page_of_one_gateway_shows_what_all_processes_count(installation: Up) -> None:
    """The last one: it has requests that fail, and the tests above count."""
    made = [name for name in installation.admins if "worker" not in name]

    def ask(number: int, what: str = "x") -> int:
        body = json.dumps({"input": what}).encode()
        return installation.ask(f"gateway-{1 + number % 2}", "POST", "/v1/inference", body).status

    def burst() -> None:
        with ThreadPoolExecutor(8) as askers:
            assert set(askers.map(ask, range(40))) == {200}

    def pages() -> list[str]:
        return [installation.admin_of(name, "/metrics").body.decode() for name in made]

    async def body(page: Page) -> None:
        new, _ = await shows_what_is_counted(page, burst, pages)
        assert new.served == 40
        assert await asyncio.to_thread(ask, 1, "bad") == 502  # at the other gateway
        await until(page, "document.querySelectorAll('#letters tbody tr').length === 1")
        assert await column(page, "letters", "message") == ["batch raised ValueError"]
        names = [name.rpartition("-")[0] for name in await column(page, "processes", "process")]
        assert names == list(installation.admins)
        figures = "[...document.querySelectorAll('#processes td')].map(cell => cell.innerText)"
        await until(page, f"{figures}.filter(each => each === 'here').length === 4")
        assert len(await column(page, "workers", "worker")) == 2
        await until(page, "document.querySelectorAll('#slow tbody tr').length > 2")

    looking(installation.admins["gateway-1"], body)
