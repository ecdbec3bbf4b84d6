"""What the live page costs: how soon it is there, and what it takes of the server and of the browser while open.

    python -m benchmarks.page
    python -m benchmarks.page --seconds 3600      whether memory stays flat over an hour; takes one

A server with ten models has answered some requests of each. First nobody looks for a while. Then the page is opened
several times in a real Chromium, on loopback, with nothing in its cache. Then it stays open.
"""

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks import echo, processor, wrk
from benchmarks.browser import Page, browsing
from benchmarks.figure import Check, Figure, Say, above_zero, conduct, options
from benchmarks.serving import Server, serving
from benchmarks.table import markdown_table

NAME = "page"
MODELS = 10
SERVER, BROWSER = "the server", "the browser"
PAINT, SHARE, GROWTH = 1000.0, 2.0, 8.0  # milliseconds, per cent of a core, MiB
LOAD = wrk.Load(16, 1, 2)
ALONE = 60.0  # seconds: enough to know what a server takes that nobody looks at
SETTLES = 5.0  # seconds until memory is looked at for the first time

PAINTED = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
SHOWN = """new Promise(done => {
  const look = () => document.querySelector('.link.live') ? done(performance.now()) : setTimeout(look, 5);
  look();
})"""


@dataclass(frozen=True, slots=True)
class Opened:
    """One opening of the page. Milliseconds from the click on."""

    painted: float
    shown: float  # until figures are there


@dataclass(frozen=True, slots=True)
class Open:
    """The page while it stays open, or the server while nobody looks."""

    seconds: float
    server: float  # per cent of a core
    browser: float = 0.0
    server_growth: float = 0.0  # MiB
    heap: float = 0.0  # MiB of the page's own objects, at the end
    heap_growth: float = 0.0


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=30, rounds=5)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument(
        "--alone", type=above_zero, help=f"seconds in which nobody looks; as --seconds, at most {ALONE:g}"
    )
    return parser.parse_args(argv)


def measure(given: argparse.Namespace, say: Say) -> Figure:
    wrk.find()
    with TemporaryDirectory(prefix="penstock-bench-") as folder, _server(folder) as server:
        wrk.measure(f"{server.url}/v1/inference", echo.BODY, LOAD)
        alone = asyncio.run(_alone(server, given.alone or min(given.seconds, ALONE)))
        say(f"nobody looks: {alone.server:.2f} % of a core")
        opened = [asyncio.run(_opened(server)) for _ in range(given.rounds)]
        say(f"opened {given.rounds} times: painted after {median(each.painted for each in opened):.0f} ms")
        open_ = asyncio.run(_open(server, given.seconds))
        say(f"open: server {open_.server:.2f} %, browser {open_.browser:.2f} % of a core")
    return figure(alone, opened, open_)


@contextmanager
def _server(folder: str) -> Iterator[Server]:
    config = Path(folder) / "penstock.toml"
    asked = f'[models.m0]\ntarget = "{echo.TARGET}"\nmax_batch = 64\ndefault = true\n'
    others = (f'[models.m{number}]\ntarget = "sim:1ms"\n' for number in range(1, MODELS))
    config.write_text("\n".join([asked, *others]))
    with serving(f"--config={config}") as server:
        yield server


async def _alone(server: Server, seconds: float) -> Open:
    before = processor.used({SERVER: server.pid})
    await asyncio.sleep(seconds)
    used = processor.between(before, processor.used({SERVER: server.pid}))
    return Open(seconds, 100 * used[SERVER] / seconds)


async def _opened(server: Server) -> Opened:
    async with browsing(f"{server.admin}/") as page:
        shown = await page.evaluate(SHOWN)
        painted = None
        while painted is None:
            painted = await page.evaluate(PAINTED)
        return Opened(painted, shown)


async def _open(server: Server, seconds: float) -> Open:
    async with browsing(f"{server.admin}/") as page:
        await page.evaluate(SHOWN)
        await asyncio.sleep(SETTLES)
        both = {SERVER: server.pid, BROWSER: page.pid}
        memory, heap, before = _resident(server.pid), await _heap(page), processor.used(both)
        await asyncio.sleep(seconds)
        used = processor.between(before, processor.used(both))
        heap_after = await _heap(page)
        return Open(
            seconds,
            100 * used[SERVER] / seconds,
            100 * sum(used[name] for name in used if name.startswith(BROWSER)) / seconds,
            _resident(server.pid) - memory,
            heap_after,
            heap_after - heap,
        )


async def _heap(page: Page) -> float:
    """MiB that the page's own objects take, after what is garbage has been collected."""
    await page.tell("HeapProfiler.collectGarbage")
    used: float = (await page.tell("Runtime.getHeapUsage"))["usedSize"]
    return used / 2**20


def _resident(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * int(subprocess.check_output(["getconf", "PAGESIZE"])) / 2**20


def figure(alone: Open, opened: Sequence[Opened], open_: Open) -> Figure:
    painted, shown = median(each.painted for each in opened), median(each.shown for each in opened)
    rows = [
        ["nobody looks", f"{alone.server:.2f}", "", "", ""],
        [
            "one page is open", f"{open_.server:.2f}", f"{open_.browser:.2f}", f"{open_.server_growth:+.1f}",
            f"{open_.heap:.1f} ({open_.heap_growth:+.1f})",
        ],
    ]  # fmt: skip
    header = [
        "",
        "server, % of a core",
        "browser, % of a core",
        "server's memory, MiB",
        "page's objects, MiB",
    ]
    return Figure(
        title="The live page",
        method=(
            f"Chromium without a screen and without a GPU, on loopback; a server of {MODELS} models; opened"
            f" {len(opened)} times (medians), then open for {open_.seconds:g} s; before that nobody looked for"
            f" {alone.seconds:g} s."
        ),
        tables=[markdown_table(header, rows)],
        checks=[
            Check("first paint", painted, PAINT),
            Check("the server while a page is open", open_.server - alone.server, SHARE, "% of a core"),
            Check("growth of the server's memory", open_.server_growth, GROWTH, "MiB"),
            Check("growth of the page's objects", open_.heap_growth, GROWTH, "MiB"),
        ],
        notes=[f"Painted after {painted:.0f} ms, with figures after {shown:.0f} ms."],
        data={"alone": asdict(alone), "open": asdict(open_), "opened": [asdict(each) for each in opened]},
    )


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
