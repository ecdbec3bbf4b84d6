"""How many dead letters one process keeps, of whom, and for how long."""

import asyncio
import logging
from dataclasses import replace
from typing import cast

import pytest

from penstock.config import Config
from penstock.core.dead_letters import size_of
from penstock.runtime.dead_letters import DeadLetters
from penstock.runtime.gateway import Gateway
from penstock.runtime.tasks import TaskStore
from penstock.runtime.wheel import Wheel
from penstock.share import OVERHEAD
from penstock.types import Accepted, Attempt, Failure, GivenUp, Outcome

KIB = 1024
TTL = 100.0
FAILED = Failure("BACKEND_FAILED", "no")
ALONE = (Attempt(0.0, "BACKEND_FAILED", "no", "", "m/0", 1, splittable=True),)


class Kept:
    """Dead letters, and what time it is."""

    def __init__(self, *, letters: int = 100, size: int = 100 * KIB) -> None:
        self.now = 1000.0
        loop = asyncio.get_running_loop()
        tasks = TaskStore(Wheel(loop, loop.time), loop.time, loop.time, max_tasks=1, max_bytes=1, ttl=1.0)
        gateway = cast(Gateway, None)  # it is asked for retries alone
        self.letters = DeadLetters(
            gateway, tasks, ["m"], ["normal"], loop.time, lambda: self.now, attempts=3, longest=60.0,
            max_letters=letters, max_bytes=size, share=Config().limits.tenant_share, ttl=TTL,
        )  # fmt: skip

    def die(self, tenant: str, size: int = 0, number: int = 1) -> None:
        for _ in range(number):
            request = Accepted("k", "m", b"x" * size, 0.0, 1.0, 1.0, "r", tenant=tenant)
            self.letters.given_up([GivenUp(request, Outcome.FAILED, failure=FAILED, history=ALONE)], 0.0)

    async def of(self, tenant: str) -> list[str]:
        return [str(each["id"]) for each in await self.letters.list(1000, None) if each["tenant"] == tenant]


def test_a_tenants_oldest_letters_make_room_for_its_own_and_for_nobody_elses(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.WARNING)
    log = logging.getLogger("penstock.dead_letters")
    monkeypatch.setattr(log, "filters", [])  # a command that ran in this process lets few lines through

    async def body() -> None:
        kept = Kept()
        kept.die("modest")
        kept.die("greedy", 9 * KIB, 20)
        assert await kept.of("modest") == ["1"]
        assert await kept.of("greedy") == ["21", "20", "19"]  # of 10 KiB and a little each
        assert kept.letters.dropped == 17
        lines = [record for record in caplog.records if "limits.max_dead_letter_bytes" in record.message]
        assert sum(vars(line)["letters"] for line in lines) == 17

    asyncio.run(body())


def test_many_tenants_together_stay_within_the_bounds() -> None:
    async def body() -> None:
        kept = Kept(letters=10)
        for number in range(30):
            kept.die(f"tenant {number}", 9 * KIB)
        assert len(await kept.letters.list(1000, None)) <= 10
        assert await kept.of("tenant 29") == ["30"]

    asyncio.run(body())


def test_without_names_all_the_room_may_be_used_and_no_more() -> None:
    async def body() -> None:
        kept = Kept()
        kept.die("", 9 * KIB, 20)
        assert len(await kept.of("")) == 9

    asyncio.run(body())


def test_a_letter_goes_when_its_time_is_over_or_it_is_removed_and_its_room_is_free() -> None:
    async def body() -> None:
        kept = Kept()
        kept.die("anna", 9 * KIB, 3)
        kept.now += TTL / 2
        kept.die("anna", 1 * KIB)
        kept.now += TTL / 2
        assert await kept.of("anna") == ["4"]
        await kept.letters.remove("4")
        kept.die("anna", 9 * KIB, 3)
        assert (await kept.of("anna"), kept.letters.dropped) == (["7", "6", "5"], 0)
        assert await kept.letters.purge() == 3
        kept.die("anna", 9 * KIB, 3)
        assert kept.letters.dropped == 0

    asyncio.run(body())


def test_all_that_a_letter_holds_is_counted() -> None:
    async def body() -> None:
        kept = Kept()
        request = Accepted("k", "m", b"i" * 10, 0.0, 1.0, 1.0, "r", parameters=b"p" * 20, tenant="t")
        kept.letters.given_up(
            [GivenUp(request, Outcome.FAILED, failure=replace(FAILED, details="d" * 40), history=ALONE)], 0.0
        )
        letter = kept.letters._find("1")
        assert size_of(letter) == OVERHEAD + 10 + 20 + 40 + 2 * len("no")

    asyncio.run(body())
