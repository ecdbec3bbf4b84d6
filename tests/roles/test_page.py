"""The live page in a real browser."""

import asyncio
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from benchmarks.browser import Page, browsing
from page_kit import column, looking, press, shows_what_is_counted, text, until

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

        looking(server.admin_url, body)
        assert server.admin("/internal/dlq").json() == []


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(config=PATIENT + TWO) as server:
        ask(server, "embed", 5)
        ask(server, "rank", 1)
        yield server


def test_its_rates_and_latencies_are_those_of_the_metrics_too(server: Server) -> None:
    def burst() -> None:
        with ThreadPoolExecutor(8) as askers:
            list(askers.map(lambda _: ask(server, "embed", 5), range(8)))

    async def body(page: Page) -> None:
        pages = lambda: [server.admin("/metrics").body.decode()]  # noqa: E731
        new, shown = await shows_what_is_counted(page, burst, pages, fresh=True)
        assert new.served >= 40
        # Over how many seconds they are spread only the server knows. Their proportion is that of what is counted.
        reasons = sum(float(each) for each in shown["reasons"])
        assert float(shown["served"]) / reasons == pytest.approx(new.served / new.batches, rel=0.05)

    looking(server.admin_url, body)


AXIS = "document.querySelector('#chart-requests .u-over').offsetLeft"
LETTER = "parseFloat(getComputedStyle(document.documentElement).fontSize)"


def test_the_charts_are_lettered_as_the_rest_of_the_page_at_every_width(server: Server) -> None:
    async def body(page: Page) -> None:
        letters = []
        for width, height in (*SIZES, *reversed(SIZES)):
            await page.tell(
                "Emulation.setDeviceMetricsOverride",
                width=width,
                height=height,
                deviceScaleFactor=1,
                mobile=False,
            )
            # The room beside a chart is as wide as so many of its letters.
            await until(page, f"Math.abs({AXIS} / {LETTER} - 4.2) < 0.1")
            letters.append(await page.evaluate(LETTER))
        assert letters == letters[::-1]
        assert len(set(letters)) > 1

    looking(server.admin_url, body)


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

    looking(server.admin_url, body)


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

    looking(server.admin_url, body)


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

        looking(server.admin_url, body)


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

    looking(server.admin_url, body)
