"""The live page in a real browser."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from benchmarks.browser import Page, browsing

from own_ports import free_port
from server import PATIENT, Server, running

TWO = """
[models.embed]
target = "sim:1ms"
workers = 2
[models.rank]
target = "sim:1ms"
"""
BAD = """
def batch(inputs):
    if "bad" in inputs:
        raise ValueError("cannot read bad")
    return inputs
"""
TOKEN = "a-token-of-at-least-so-many-letters"
SIZES = ((390, 844), (1280, 800), (3840, 2160))


async def until(page: Page, holds: str) -> None:
    """Returns once this holds in the page."""
    await page.evaluate(
        f"new Promise(done => {{ const look = () => {holds} ? done() : setTimeout(look, 20); look(); }})"
    )


async def text(page: Page, where: str) -> str:
    found: str = await page.evaluate(f"document.querySelector({where!r}).innerText")
    return found


async def column(page: Page, table: str, name: str) -> list[str]:
    """The cells of a column, by its heading."""
    found: list[str] = await page.evaluate(f"""(() => {{
      const table = document.querySelector('#{table} table');
      const place = [...table.querySelectorAll('th')].findIndex(head => head.innerText.startsWith('{name}'));
      return [...table.tBodies[0].rows].map(row => row.cells[place].innerText);
    }})()""")
    return found


CODES = {"Escape": 27, "Tab": 9}  # what Chromium goes by for keys without a letter


async def press(page: Page, key: str) -> None:
    more: dict[str, object] = {"windowsVirtualKeyCode": CODES[key]} if key in CODES else {"text": key}
    await page.tell(
        "Input.dispatchKeyEvent", type="rawKeyDown" if key in CODES else "keyDown", key=key, **more
    )
    await page.tell("Input.dispatchKeyEvent", type="keyUp", key=key, **more)


def looking(server: Server, body: Callable[[Page], Awaitable[None]]) -> None:
    """Opens the page, waits until it shows figures, and does the rest. The page must not complain meanwhile, nor
    ask for anything that is not this server's."""

    async def run() -> None:
        async with browsing(f"{server.admin_url}/") as page:
            await page.tell("Log.enable")
            await page.tell("Runtime.enable")
            await until(page, "document.querySelector('.link.live') && document.querySelector('#workers td')")
            await body(page)
            assert complaints(page) == []
            assert [url for url in page.requested() if not url.startswith(server.admin_url)] == []

    asyncio.run(run())


def complaints(page: Page) -> list[dict[str, Any]]:
    """What the page has thrown, and what its browser refused it."""
    thrown = [event["params"] for event in page.events if event["method"] == "Runtime.exceptionThrown"]
    logged = [event["params"]["entry"] for event in page.events if event["method"] == "Log.entryAdded"]
    return thrown + [entry for entry in logged if entry["source"] in ("security", "javascript")]


def ask(server: Server, model: str, times: int, what: str = "x") -> None:
    for _ in range(times):
        server.post("/v1/inference", {"input": what, "model": model})


def test_its_figures_are_those_of_the_metrics(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(BAD)
    config = f"{PATIENT}{TWO}[models.bad]\ntarget = '{tmp_path}/bad.py:batch'\n[retries]\nbase = '1ms'\n"
    with running(config=config) as server:
        ask(server, "embed", 30)
        ask(server, "bad", 2, "bad")

        async def body(page: Page) -> None:
            await until(page, "document.querySelectorAll('#letters tbody tr').length === 2")
            batches = sum(int(cell) for cell in await column(page, "workers", "batches"))
            sent = sum(
                server.metric("penstock_batches_total", model=model, reason=reason)
                for model in ("embed", "rank", "bad")
                for reason in ("full", "due", "idle", "deadline", "cost", "drain")
            )
            assert batches == sent
            assert await column(page, "models", "model") == ["bad", "embed", "rank"]
            assert await column(page, "codes", "code") == ["BACKEND_FAILED"]
            assert await column(page, "codes", "since") == ["2"]
            letters = server.metric("penstock_dead_letters_total", model="bad")
            assert (await text(page, '[data-tile="dead letters"] .figure')) == str(int(letters)) == "2"
            await until(page, "document.querySelectorAll('#slow tbody tr').length > 2")

            # Dead letters are shown, retried and forgotten here.
            await page.evaluate("document.querySelector('#letters tbody button').click()")
            await until(page, "document.getElementById('letters-said').innerText.includes('/v1/result/')")
            # The retried request fails again, and becomes the third letter.
            await until(
                page, """document.querySelector('[data-tile="dead letters"] .figure').innerText === '3'"""
            )
            await page.evaluate("document.getElementById('purge').click()")
            assert await page.evaluate("document.getElementById('sure-dialog').open")
            await page.evaluate("document.getElementById('sure-yes').click()")
            await until(page, "document.getElementById('letters-said').innerText.startsWith('Forgotten')")
            await until(page, "document.querySelectorAll('#letters tbody tr').length === 0")

        looking(server, body)
        assert server.admin("/internal/dlq").json() == []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=PATIENT + TWO) as server:
        ask(server, "embed", 5)
        ask(server, "rank", 1)
        yield server


def test_it_fits_on_a_telephone_and_on_a_wall_in_the_dark_too(server: Server) -> None:
    async def body(page: Page) -> None:
        for theme in ("light", "dark"):
            for width, height in SIZES:
                await page.tell(
                    "Emulation.setDeviceMetricsOverride", width=width, height=height,
                    deviceScaleFactor=1, mobile=False,
                )  # fmt: skip
                reach, plots = await page.evaluate(
                    "[document.documentElement.scrollWidth, document.querySelectorAll('.plot canvas').length]"
                )
                assert reach <= width, (theme, width)
                assert plots == 8
            await press(page, "t")
        assert await page.evaluate("document.documentElement.dataset.theme") in ("light", "dark")

    looking(server, body)


def test_everything_can_be_done_with_keys(server: Server) -> None:
    async def body(page: Page) -> None:
        pressed = "document.querySelector('#range [aria-pressed=true]').innerText"
        assert await page.evaluate(pressed) == "1 h"
        await press(page, "1")
        assert await page.evaluate(pressed) == "5 min"
        before = await page.evaluate("document.documentElement.dataset.theme")
        await press(page, "t")
        assert await page.evaluate("document.documentElement.dataset.theme") != before
        await press(page, "m")
        await press(page, "m")
        assert await page.evaluate("document.getElementById('model').value") == "rank"
        assert await column(page, "workers", "model") == ["rank"]
        await press(page, "?")
        assert await page.evaluate("document.getElementById('help-dialog').open")
        assert "dead letters" in await text(page, "#help-dialog")
        await press(page, "Escape")
        await until(page, "!document.getElementById('help-dialog').open")
        await press(page, "w")  # at the workers: Enter sorts them, and Tab goes on to the next column
        heading = "document.activeElement.closest('th').innerText"
        assert (await page.evaluate(heading)).startswith("worker")
        await press(page, "Tab")
        assert await page.evaluate(heading) == "model"
        assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"

    looking(server, body)


def test_it_survives_a_restart_of_the_server() -> None:
    port = str(free_port())
    config = PATIENT + TWO
    with ExitStack() as stack:
        server = stack.enter_context(running(None, "--admin-port", port, config=config))

        async def body(page: Page) -> None:
            await asyncio.to_thread(server.process.send_signal, signal.SIGTERM)
            await until(page, "document.querySelector('.link.lost')")
            assert await page.evaluate("document.body.classList.contains('stale')")
            await asyncio.to_thread(server.process.wait)
            again = await asyncio.to_thread(
                stack.enter_context, running(None, "--admin-port", port, config=config)
            )
            await until(page, "document.querySelector('.link.live')")
            await asyncio.to_thread(ask, again, "rank", 3)
            rows = "[...document.querySelectorAll('#workers tbody tr')]"
            await until(page, f"{rows}.some(row => row.cells[5].innerText === '3')")

        looking(server, body)


def test_the_token_is_asked_for_once_and_is_never_in_an_address() -> None:
    with running(config=PATIENT + TWO, environment={"PENSTOCK_SERVER_ADMIN_TOKEN": TOKEN}) as server:

        async def give(page: Page, token: str) -> None:
            await until(page, "document.getElementById('token-dialog').open")
            await page.evaluate(f"document.getElementById('token').value = '{token}'")
            await page.evaluate("document.getElementById('token-send').click()")

        async def body() -> None:
            async with browsing(f"{server.admin_url}/") as page:
                await give(page, "wrong")
                await until(
                    page, "document.getElementById('token-said').innerText === 'That is not the token.'"
                )
                await give(page, TOKEN)
                await until(page, "document.querySelector('.link.live')")
                loader = (await page.tell("Page.reload")) or {}
                assert loader == {}
                await until(
                    page, "document.querySelector('.link.live') && document.querySelector('#workers td')"
                )
                assert not [url for url in page.requested() if TOKEN in url]
                assert TOKEN not in await page.evaluate("location.href + document.documentElement.outerHTML")

        asyncio.run(body())


def test_a_page_that_nobody_looks_at_hangs_up_and_calls_again_when_somebody_does(server: Server) -> None:
    async def body(page: Page) -> None:
        hide = "Object.defineProperty(document, 'hidden', {value: %s, configurable: true});"
        hide += "document.dispatchEvent(new Event('visibilitychange'))"
        await page.evaluate(hide % "true")
        seen = await page.evaluate("document.getElementById('who').innerText")
        await page.evaluate(hide % "false")
        await until(page, f"document.getElementById('who').innerText !== {seen!r}")
        streams = [url for url in page.requested() if url.endswith("/internal/stream")]
        assert len(streams) == 2

    looking(server, body)
