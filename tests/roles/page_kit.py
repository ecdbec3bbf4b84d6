"""The live page in a real browser, for tests: what it shows, and whether that is what the metrics say."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.browser import Page, browsing
from prometheus_client.parser import text_string_to_metric_families

from penstock.overview.quantile import quantiles


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


def looking(admin: str, body: Callable[[Page], Awaitable[None]]) -> None:
    """Opens the page, waits until it shows figures, and does the rest. The page must not complain meanwhile, nor
    ask for anything that is not this server's."""

    async def run() -> None:
        async with browsing(f"{admin}/") as page:
            await page.tell("Log.enable")
            await page.tell("Runtime.enable")
            await until(page, "document.querySelector('.link.live') && document.querySelector('#workers td')")
            await body(page)
            assert complaints(page) == []
            assert [url for url in page.requested() if not url.startswith(admin)] == []

    asyncio.run(run())


def complaints(page: Page) -> list[dict[str, Any]]:
    """What the page has thrown, and what its browser refused it."""
    thrown = [event["params"] for event in page.events if event["method"] == "Runtime.exceptionThrown"]
    logged = [event["params"]["entry"] for event in page.events if event["method"] == "Log.entryAdded"]
    return thrown + [entry for entry in logged if entry["source"] in ("security", "javascript")]


# ---- whether it shows what the metrics say -------------------------------------------------------------------

SERVED = """document.querySelector('[data-tile="served"] .figure').innerText"""
SHOWN = """(() => {
  const tile = (name) => document.querySelector(`[data-tile="${name}"] .figure`).innerText;
  const key = (chart) => [...document.querySelectorAll(`#${chart} .key b`)].map(each => each.innerText);
  return {served: tile("served"), batch: tile("batch"), p99: tile("latency p99"), latency: key("chart-latency"),
          reasons: key("chart-reasons")};
})()"""


@dataclass
class Counted:
    """What metrics pages have counted of all models together."""

    served: float
    batches: float
    batched: float
    within: dict[str, float]  # by bound, how many requests took no longer

    def since(self, before: "Counted") -> "Counted":
        within = {bound: count - before.within.get(bound, 0.0) for bound, count in self.within.items()}
        return Counted(
            self.served - before.served, self.batches - before.batches, self.batched - before.batched, within
        )

    def quantile(self, share: float) -> str:
        """A quantile of the latency, as the page writes it."""
        counts, below = {}, 0.0
        for bound, count in sorted(self.within.items(), key=lambda each: float(each[0])):
            if count > below and bound != "+Inf":
                counts[round(float(bound) * 1e6)] = int(count - below)
            below = count
        [found] = quantiles(counts, share)
        assert found is not None
        milliseconds = round(found * 1e3, 3)
        return f"{milliseconds:,.0f} ms" if milliseconds >= 99.95 else f"{milliseconds:#.3g} ms"


def counted(pages: Sequence[str]) -> Counted:
    """`pages`: of all processes that answer requests or form batches."""
    all_of = Counted(0.0, 0.0, 0.0, {})
    for page in pages:
        for sample in (each for family in text_string_to_metric_families(page) for each in family.samples):
            name, value = sample.name, float(sample.value)
            if name == "penstock_requests_total" and sample.labels["outcome"] == "SUCCESS":
                all_of.served += value
            elif name == "penstock_batches_total":
                all_of.batches += value
            elif name == "penstock_batched_requests_total":
                all_of.batched += value
            elif name == "penstock_request_latency_seconds_bucket":
                bound = sample.labels["le"]
                all_of.within[bound] = all_of.within.get(bound, 0.0) + value
    return all_of


async def shows_what_is_counted(
    page: Page, burst: Callable[[], None], pages: Callable[[], Sequence[str]], *, fresh: bool = False
) -> tuple[Counted, dict[str, Any]]:
    """Sends requests at a moment when the page shows none, until it has shown their latencies and batches exactly
    as the metrics count them. Returns what was counted and shown. What the page shows is of the last seconds: a
    burst that takes longer than that never stands there whole, and then another one is sent. `fresh`: the server
    has just started, so that what it has answered so far is shown together with the first burst."""
    while True:
        before = Counted(0.0, 0.0, 0.0, {})
        if not fresh:
            await until(page, f"{SERVED} === '0'")
            before = counted(await asyncio.to_thread(pages))
        fresh = False
        await asyncio.to_thread(burst)
        new = counted(await asyncio.to_thread(pages)).since(before)
        wanted = [new.quantile(share) for share in (0.5, 0.95, 0.99)]
        await until(page, f"{SERVED} !== '0'")
        shown = await page.evaluate(SHOWN)
        while shown["served"] != "0":
            if (
                shown["latency"][:3] == wanted
                and abs(float(shown["batch"]) - new.batched / new.batches) < 0.06
            ):
                assert shown["p99"] == wanted[2]
                return new, shown
            await asyncio.sleep(0.02)
            shown = await page.evaluate(SHOWN)
