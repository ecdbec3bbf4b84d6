"""The report in a real browser, on a screen and on a telephone."""

import asyncio
from pathlib import Path

import typer
from benchmarks.browser import browsing
from tiny_server import TinyServer
from typer.testing import CliRunner

from penstock.cli.bench import bench

app = typer.Typer()
app.command()(bench)

WIDTHS = (1280, 700, 390)
# How far the page reaches to the right, how many charts are seen, and the smallest text in them, as it is seen.
LOOK = """(() => {
  const charts = [...document.querySelectorAll('.chart')].filter(each => each.offsetWidth);
  const heights = charts.flatMap(each => [...each.querySelectorAll('.tick')].map(tick =>
    parseFloat(getComputedStyle(tick).fontSize) * tick.getScreenCTM().a));
  return [document.documentElement.scrollWidth, charts.length, Math.min(...heights)];
})()"""


def test_it_fits_on_every_screen_and_can_be_read_there(tmp_path: Path) -> None:
    out = tmp_path / "out.html"
    with TinyServer() as server:
        words = [server.url, "--rate", "200", "--duration", "300ms", "--warmup", "0s", "--html", str(out)]
        assert CliRunner().invoke(app, words).exit_code == 0

    async def body() -> dict[int, list[float]]:
        seen = {}
        async with browsing(out.as_uri()) as page:
            for width in WIDTHS:
                await page.tell(
                    "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1,
                    mobile=False,
                )  # fmt: skip
                seen[width] = await page.evaluate(LOOK)
        return seen

    for width, (reach, charts, text) in asyncio.run(body()).items():
        assert reach <= width, width
        assert charts == 4, width
        assert text > 9, width  # pixels
