"""What the tests of webhooks have in common: an address that takes messages as the test says, and tasks that are
over when it says so."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from penstock.ports.webhooks import Posted
from penstock.types import Accepted, Outcome, Reply, TaskStatus


@dataclass
class Target:
    """Takes messages as the test says."""

    answers: list[Posted | Exception] = field(default_factory=list)
    messages: list[tuple[float, str, Mapping[str, str], bytes]] = field(default_factory=list)
    takes: float = 0.0  # seconds
    at_once: int = 0
    most: int = 0
    closed: bool = False

    def why_not(self, host: str) -> str:
        return "10.0.0.1 is a private address" if host == "10.0.0.1" else ""

    async def post(self, url: str, fields: Mapping[str, str], body: bytes) -> Posted:
        self.messages.append((asyncio.get_running_loop().time(), url, fields, body))
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            await asyncio.sleep(self.takes)
        finally:
            self.at_once -= 1
        answer = self.answers.pop(0) if self.answers else Posted(200)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close(self) -> None:
        self.closed = True


class Work:
    """A task that is over when the test says so."""

    def __init__(self, name: str = "t1", *faults: Exception) -> None:
        self.id = name
        self.status = TaskStatus.PENDING
        self.answer: Reply | None = None
        self.changed_at = 0.0
        self._over = asyncio.Event()
        self._faults = list(faults)

    def end(self) -> None:
        request = Accepted("k", "m", b"", 0.0, 1.0, 1.0)
        self.answer, self.status = Reply(request, Outcome.SUCCESS, b'"out"'), TaskStatus.SUCCESS
        self._over.set()

    async def wait(self, seconds: float) -> None:
        if self._faults:
            raise self._faults.pop(0)
        try:
            async with asyncio.timeout(seconds):
                await self._over.wait()
        except TimeoutError:
            pass

    async def cancel(self) -> None: ...


def tell(task: Any, with_output: bool) -> bytes:
    return b'{"task_id":"%b"%b}' % (task.id.encode(), b',"output":"out"' if with_output else b"")
