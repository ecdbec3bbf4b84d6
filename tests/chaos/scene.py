"""A server whose function keeps a journal, what it holds open, and eyes on it while a fault is on."""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from history import GRACE, NOISE, Ask, History, Journal, percentile
from open_loop import drive
from server import Server, eventually, running

FUNCTION = f"{Path(__file__).with_name('functions.py')}:batchstring"
LEAK = 1.05  # of its memory, what a server may have grown by after a long form


@dataclass(frozen=True, slots=True)
class Holdings:
    """What a server at rest holds."""

    descriptors: int
    memory: int

    @classmethod
    def of(cls, server: Server) -> "Holdings":
        process = psutil.Process(server.process.pid)
        return cls(process.num_fds(), process.memory_info().rss)


@dataclass(slots=True)
class Scene:
    server: Server
    journal: Journal
    delay: Path
    long: bool
    at_rest: Holdings

    @property
    def grace(self) -> float:
        return GRACE if self.long else NOISE

    def set_delay(self, seconds: float) -> None:
        """How long a batch takes from now on."""
        write_delay(self.delay, seconds)

    def check(self, *histories: History) -> None:
        """What holds in every row: of the history, and of a server whose clients have all gone."""
        for history in histories:
            history.check(self.grace)
        grown = self.growth()
        assert self.server.admin("/livez").status == 200
        if self.long:
            assert grown <= LEAK, f"its memory has grown to {grown:.1%}"

    def growth(self) -> float:
        """Its memory by what it was, once it is at rest again."""
        eventually(self._at_rest_again, 60.0)
        return Holdings.of(self.server).memory / self.at_rest.memory

    def settle(self) -> None:
        """Compare memory with what it is now: a server that has met a fault for the first time holds more."""
        eventually(self._at_rest_again, 60.0)
        self.at_rest = Holdings(self.at_rest.descriptors, Holdings.of(self.server).memory)

    def _at_rest_again(self) -> bool:
        health = self.server.health()
        return (
            health["queue_depth"] == 0
            and health["waiting_clients"] == 0
            and Holdings.of(self.server).descriptors <= self.at_rest.descriptors
        )

    def ready_workers(self) -> int:
        return sum(row["state"] == "idle" for row in self.server.admin("/internal/workers").json())


def write_delay(file: Path, seconds: float) -> None:
    """Replaced as a whole, since a batch may just be reading it."""
    fresh = file.with_suffix(".new")
    fresh.write_text(str(seconds))
    fresh.replace(file)


@contextmanager
def scene(
    folder: Path,
    *options: str,
    long: bool,
    config: str = "",
    target: str = FUNCTION,
    workers: int = 1,
    delay: float = 0.0,
    spare: int = 0,
    warm_up: Sequence[Ask] = (),
    keys: Mapping[str, str] | None = None,
) -> Iterator[Scene]:
    """`spare`: descriptors that a server at rest may hold besides those it has at the beginning.
    `warm_up`: a load like the one to come, for its memory is at rest only after one.
    `keys`: of its clients, where it asks for them."""
    journal, wait = Journal(folder / "journal"), folder / "delay"
    write_delay(wait, delay)
    environment = {"CHAOS_JOURNAL": str(journal.path), "CHAOS_DELAY": str(wait)}
    with running(
        target, "--workers", str(workers), *options, config=config, environment=environment
    ) as server:
        stage = Scene(server, journal, wait, long, Holdings(0, 0))
        eventually(lambda: stage.ready_workers() == workers, 60.0)
        head = {"authorization": f"Bearer {next(iter(keys.values()))}"} if keys else {}
        assert server.post("/v1/inference", {"input": "good:first"}, head).status == 200
        if long:
            asyncio.run(drive(server.url, warm_up, 0, keys=keys))
        found = Holdings.of(server)
        stage.at_rest = Holdings(found.descriptors + spare, found.memory)
        yield stage


@asynccontextmanager
async def sampling(look: Callable[[], object], every: float = 0.05) -> AsyncIterator[list[float]]:
    """Seconds that each of many looks took, while the block runs."""
    taken: list[float] = []

    async def sample() -> None:
        while True:
            before = time.monotonic()
            await asyncio.to_thread(look)
            taken.append(time.monotonic() - before)
            await asyncio.sleep(every)

    task = asyncio.create_task(sample())
    try:
        yield taken
    finally:
        task.cancel()
        (ended,) = await asyncio.gather(task, return_exceptions=True)
        if isinstance(ended, Exception):  # a look that failed
            raise ended


@asynccontextmanager
async def watching_deaths(journal: Journal) -> AsyncIterator[dict[int, float]]:
    """When each process that wrote into the journal died, by its number."""
    loop = asyncio.get_running_loop()
    descriptors: dict[int, int] = {}
    died: dict[int, float] = {}

    def on_death(pid: int) -> None:
        died[pid] = time.monotonic()
        loop.remove_reader(descriptors[pid])

    async def watch() -> None:
        while True:
            for pid in {execution.pid for execution in journal.executions()} - descriptors.keys():
                try:
                    descriptors[pid] = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue  # gone already; what is asked for is how long the living take
                loop.add_reader(descriptors[pid], on_death, pid)
            await asyncio.sleep(0.02)

    task = asyncio.create_task(watch())
    try:
        yield died
    finally:
        task.cancel()
        await asyncio.wait([task])
        for pid, descriptor in descriptors.items():
            if pid not in died:
                loop.remove_reader(descriptor)
            os.close(descriptor)


def milliseconds(values: list[float], share: float) -> str:
    return f"p{share * 100:g} {percentile(values, share) * 1e3:.1f} ms"


def report(request: pytest.FixtureRequest, row: str) -> None:
    """A row of the table, past pytest's capture."""
    capture = request.config.pluginmanager.getplugin("capturemanager")
    assert capture is not None
    with capture.global_and_fixture_disabled():
        print(f"\n{row}", flush=True)
