"""A real Chromium, told what to do over its DevTools protocol: just enough to click and to read. Used by
`benchmarks.page` and by the tests."""

import asyncio
import json
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, ClientWebSocketResponse

CHROMIUM = (
    "chromium",
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)


@dataclass
class Page:
    socket: ClientWebSocketResponse
    pid: int  # of the browser
    calls: int = 0
    events: list[dict[str, Any]] = field(default_factory=list)

    async def tell(self, method: str, **parameters: object) -> dict[str, Any]:
        """One command; what happens meanwhile is kept in `events`."""
        self.calls += 1
        await self.socket.send_json({"id": self.calls, "method": method, "params": parameters})
        while True:
            said = await self.hear()
            if said.get("id") == self.calls:
                assert "error" not in said, said
                result: dict[str, Any] = said["result"]
                return result

    async def evaluate(self, script: str) -> Any:
        """The value of a JavaScript expression; promises are awaited."""
        result = await self.tell("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    async def hear(self) -> dict[str, Any]:
        said: dict[str, Any] = json.loads(await self.socket.receive_str())
        if "method" in said:
            self.events.append(said)
        return said

    def has_loaded(self, loader: str) -> bool:
        """Not the empty page before it, whose own end of loading may be told just now."""
        told = [event["params"] for event in self.events if event["method"] == "Page.lifecycleEvent"]
        return any((each["loaderId"], each["name"]) == (loader, "load") for each in told)

    def requested(self) -> list[str]:
        """Every address it has asked for."""
        sent = [event for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]


@asynccontextmanager
async def browsing(url: str) -> AsyncIterator[Page]:
    """A page at this address, once it has loaded."""
    with _chromium() as (pid, port):
        async with (
            ClientSession() as session,
            session.ws_connect(await _first_page(session, port), max_msg_size=0) as socket,
        ):
            page = Page(socket, pid)
            await page.tell("Page.enable")
            await page.tell("Page.setLifecycleEventsEnabled", enabled=True)
            await page.tell("Network.enable")
            loader = (await page.tell("Page.navigate", url=url))["loaderId"]
            while not page.has_loaded(loader):
                await page.hear()
            yield page


async def _first_page(session: ClientSession, port: int) -> str:
    """Where it is told what to do; the browser takes commands a moment before it has a page."""
    while True:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
            pages = [entry for entry in await response.json() if entry["type"] == "page"]
        if pages:
            return str(pages[0]["webSocketDebuggerUrl"])
        await asyncio.sleep(0.05)


@contextmanager
def _chromium() -> Iterator[tuple[int, int]]:
    """Its process, and the port on which it takes commands."""
    with (
        tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile,
        subprocess.Popen(
            [*CHROMIUM, f"--user-data-dir={profile}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        try:
            assert process.stderr is not None
            lines = (line for line in process.stderr if "DevTools listening on" in line)
            yield process.pid, int(next(lines).split("/")[2].rpartition(":")[2])
        finally:
            process.terminate()
