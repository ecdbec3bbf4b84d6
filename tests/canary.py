"""Tenants that ask the same at the same time, and leave when they like; each output names its execution.

The model says it is deterministic and is not: every execution of an input gives another output. So whoever is given
an output that was made for another tenant is found out.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from urllib.parse import urlsplit

FUNCTION = """
import secrets, time
def batch(inputs):
    time.sleep(0.02)
    return [f"{text}|{secrets.token_hex(8)}" for text in inputs]
"""
TENANTS = tuple(f"tenant-{number}" for number in range(8))
TEXTS = tuple(f"text {number}" for number in range(4))
LIMIT = 100.0

Extra = Callable[[str, int], Mapping[str, str]]  # more headers, for a tenant's n-th request


@dataclass
class Sightings:
    """What was seen by whom."""

    outputs: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))  # tenants by output
    wrong: list[str] = field(default_factory=list)
    statuses: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    cached: int = 0
    left: int = 0

    def saw(self, tenant: str, asked: str, output: str) -> None:
        self.outputs[output].add(tenant)
        if output.partition("|")[0] != asked:
            self.wrong.append(f"{tenant} asked {asked!r} and got {output!r}")

    @property
    def across_tenants(self) -> list[str]:
        return [output for output, tenants in self.outputs.items() if len(tenants) > 1]


class Canary:
    def __init__(
        self,
        urls: Sequence[str],
        keys: Mapping[str, str],
        seed: int,
        extra: Extra = lambda tenant, number: {},
    ) -> None:
        self._urls, self._keys, self._extra = urls, keys, extra
        self._random = Random(seed)
        self.seen = Sightings()

    async def fly(self, requests: int) -> Sightings:
        """So many of each tenant, a few at a time."""
        async with asyncio.timeout(LIMIT), asyncio.TaskGroup() as group:
            for tenant in self._keys:
                for part in range(4):
                    group.create_task(self._tenant(tenant, range(part, requests, 4)))
        return self.seen

    async def _tenant(self, tenant: str, numbers: range) -> None:
        for number in numbers:
            text, kind = self._random.choice(TEXTS), self._random.random()
            if kind < 0.6:
                await self._ask(tenant, number, text)
            elif kind < 0.8:
                await self._leave(tenant, number, text, self._random.uniform(0.0, 0.03))
            else:
                await self._task(tenant, number, text, cancels=kind < 0.9)

    async def _ask(self, tenant: str, number: int, text: str) -> None:
        status, said = await self._call(tenant, number, "POST", "/v1/inference", {"input": text})
        self.seen.statuses[status] += 1
        if status == 200:
            self.seen.saw(tenant, text, said["output"])
            self.seen.cached += said["metadata"]["cached"]

    async def _leave(self, tenant: str, number: int, text: str, after: float) -> None:
        try:
            async with asyncio.timeout(after):
                await self._ask(tenant, number, text)
        except TimeoutError:
            self.seen.left += 1

    async def _task(self, tenant: str, number: int, text: str, *, cancels: bool) -> None:
        status, said = await self._call(
            tenant, number, "POST", "/v1/inference", {"input": text}, prefer="respond-async"
        )
        assert status == 202, said
        path = f"/v1/result/{said['task_id']}"
        if cancels:
            await self._call(tenant, number, "DELETE", path)
        other = self._random.choice([each for each in self._keys if each != tenant])
        assert (await self._call(other, number, "GET", path))[0] == 404
        status, said = await self._call(tenant, number, "GET", f"{path}?wait_ms=20000")
        assert status == 200, said
        if said["status"] == "SUCCESS":
            self.seen.saw(tenant, text, said["output"])

    async def _call(
        self, tenant: str, number: int, method: str, path: str, body: object = None, **headers: str
    ) -> tuple[int, Any]:
        to = urlsplit(self._random.choice(self._urls))
        reader, writer = await asyncio.open_connection(to.hostname, to.port)
        try:
            content = b"" if body is None else json.dumps(body).encode()
            said = {
                "Host": to.netloc, "Authorization": f"Bearer {self._keys[tenant]}", "Connection": "close",
                "Content-Type": "application/json", "Content-Length": str(len(content)),
                **headers, **(self._extra(tenant, number) if method == "POST" else {}),
            }  # fmt: skip
            lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
            writer.write("\r\n".join([*lines, "", ""]).encode() + content)
            head, _, answer = (await reader.read()).partition(b"\r\n\r\n")
            return int(head.split(b" ", 2)[1]), json.loads(answer)
        finally:
            writer.close()
