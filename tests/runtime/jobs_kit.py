"""Jobs on a virtual clock: the real service, on a real directory, and lines that a test answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from penstock.adapters.job_store.directory import DirectoryStore
from penstock.core.job_restraint import RestraintRules
from penstock.errors import PenstockError
from penstock.jobs import Job, Said, Slack
from penstock.loops import Loops
from penstock.ports.jobs import JobStore, ReadLine
from penstock.ports.waiting import Leaving
from penstock.runtime.jobs.service import JobService
from penstock.runtime.jobs.shelf import JobBounds
from penstock.types import Identity

WALL = 1_700_000_000.0  # seconds since the epoch when the loop began
ENDPOINT = "/v1/embeddings"
T = TypeVar("T")


async def at_once(work: Callable[[], T], /) -> T:
    """Does what touches the disk here and now: in virtual time it takes none."""
    await asyncio.sleep(0)
    return work()


@dataclass(eq=False)
class Asked:
    """A line that was asked."""

    name: str
    body: bytes
    identity: Identity | None
    answered: Callable[[Said], None]
    has_left: bool = False

    def left(self) -> None:
        self.has_left = True


@dataclass
class TestLine:
    __test__ = False
    lines: "TestLines"
    name: str
    body: bytes
    identity: Identity | None
    model: str | None = "model"
    requests: int = 1

    def ask(self, answered: Callable[[Said], None]) -> Leaving:
        asked = Asked(self.name, self.body, self.identity, answered)
        self.lines.asked.append(asked)
        self.lines.answer(asked)
        return asked


@dataclass
class TestLines:
    """Answers each line after a second, unless the test says otherwise."""

    __test__ = False
    seconds: float = 1.0
    says: Callable[[Asked], Said] = lambda asked: Said(200, asked.body)
    refuses: Callable[[bytes], Said | None] = lambda body: None
    asked: list[Asked] = field(default_factory=list)

    @property
    def endpoints(self) -> Collection[str]:
        return [ENDPOINT]

    async def read(self, endpoint: str, body: bytes, identity: Identity | None, name: str) -> ReadLine | Said:
        return self.refuses(body) or TestLine(self, name, body, identity)

    def refusal(self, endpoint: str, error: Exception, name: str) -> Said:
        assert isinstance(error, PenstockError)
        return Said(error.status, b"{}", error.code, error.retry_after)

    def answer(self, asked: Asked) -> None:
        def reply() -> None:
            if not asked.has_left:
                asked.answered(self.says(asked))

        asyncio.get_running_loop().call_later(self.seconds, reply)


def text_of(number: int) -> bytes:
    return b"".join(
        b'{"custom_id":"c%d","method":"POST","url":"/v1/embeddings","body":{"input":"%d"}}\n' % (n, n)
        for n in range(number)
    )


class House:
    """One process with jobs."""

    def __init__(
        self,
        folder: Path,
        lines: TestLines,
        bounds: JobBounds | None = None,
        slack: Callable[[str | None], Slack] = lambda model: Slack(0, 4, 4),
        rules: RestraintRules | None = None,
        store: JobStore | None = None,
        aside: Callable[[Callable[[], object]], Awaitable[object]] = at_once,
    ) -> None:
        loop = asyncio.get_running_loop()
        self.lines = lines
        self.service = JobService(
            store or DirectoryStore(folder), bounds or JobBounds(), slack, rules or RestraintRules(), loop.time,
            lambda: WALL + loop.time(), at_once,
        )  # fmt: skip
        self.service.lines = lines

    @asynccontextmanager
    async def open(self) -> "AsyncIterator[House]":
        loops = Loops(asyncio.get_running_loop().time)
        await self.service.open(loops)
        try:
            yield self
        finally:
            await loops.close()
            await self.service.close()

    async def job(self, number: int, tenant: str = "t") -> Job:
        return await self.job_of(text_of(number), tenant)

    async def job_of(self, text: bytes, tenant: str = "t") -> Job:
        file = await self.service.upload(tenant, "in.jsonl", [text], None)
        return await self.service.create(tenant, None, ENDPOINT, file.id, None)

    async def over(self, job: Job, tenant: str = "t", seconds: float = 10_000.0) -> Job:
        for _ in range(int(seconds * 10)):
            found = self.service.find_job(tenant, job.id)
            if found.is_over:
                return found
            await asyncio.sleep(0.1)
        raise AssertionError("it is not over in time")

    async def read(self, file_id: str | None, tenant: str = "t") -> Sequence[bytes]:
        assert file_id is not None
        file = self.service.find_file(tenant, file_id)
        return b"".join([piece async for piece in self.service.content(file)]).splitlines()
