"""What gateways write for each other is bounded, and never in anybody's way."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.runtime.collapse.shared_answers import Allowance, SharedAnswers
from penstock.testing import MockAnswerStore, run_virtual

TTL = 100.0


def answers(store: MockAnswerStore, *, max_entries: int = 100, room: bool = True) -> SharedAnswers[object]:
    clock = asyncio.get_running_loop().time
    return SharedAnswers[object](
        store, clock, max_entries=max_entries, max_bytes=1 << 20, has_room=lambda: room
    )


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_no_more_is_written_in_any_lifetime_than_may_lie_there() -> None:
    allowance, written = Allowance(100, 0.0), []
    for tick in range(5000):
        now = tick * 0.1
        while allowance.has(1, TTL, now):
            allowance.take(1)
            written.append(now)
    for begin in range(400):
        assert sum(begin <= when < begin + TTL for when in written) <= 101
    assert len(written) == pytest.approx(50 + 500 / TTL * 50, abs=1)  # and all of it is used


def test_beyond_its_allowance_or_without_room_nothing_is_written() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        full = answers(store, room=False)
        full.keep(key(0), b"v", TTL)
        bounded = answers(store, max_entries=10)
        for number in range(10):
            bounded.keep(key(number), b"v", TTL)
        loops = [asyncio.create_task(each.run()) for each in (full, bounded)]
        await asyncio.sleep(1.0)
        assert sum(store.writes) == 5
        for loop in loops:
            loop.cancel()
        await asyncio.wait(loops)

    run_virtual(body())


def test_questions_grow_with_the_stores_slowness_and_are_never_too_large() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        store.seconds = 0.01
        shared = answers(store)
        found: list[object] = []

        def looked_up(lookups: Sequence[tuple[object, bytes | None]], *, bypassed: bool) -> None:
            assert not bypassed
            found.extend(who for who, _ in lookups)

        shared.on_looked_up = looked_up
        loop = asyncio.create_task(shared.run())
        await asyncio.sleep(0.001)
        shared.look_up(key(0), 0)
        await asyncio.sleep(0.001)
        for number in range(1, 1001):
            shared.look_up(key(number), number)
        await asyncio.sleep(1.0)
        assert store.fetches == [1, 512, 488]
        assert found == list(range(1001))  # whoever came first is asked for first
        loop.cancel()
        await asyncio.wait([loop])

    run_virtual(body())


def test_a_write_that_fails_is_dropped_and_the_store_left_alone() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        store.down = True
        shared = answers(store)
        loop = asyncio.create_task(shared.run())
        shared.keep(key(0), b"v", TTL)
        await asyncio.sleep(0.1)
        assert [shared.resting] == [True]
        shared.keep(key(1), b"v", TTL)
        await asyncio.sleep(1.0)
        assert not shared.resting
        assert store.writes == [1]
        loop.cancel()
        await asyncio.wait([loop])

    run_virtual(body())


def test_a_store_that_hardly_ever_knows_anything_is_asked_for_a_moment_now_and_then() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        shared = answers(store)
        shared.on_looked_up = lambda lookups, *, bypassed: None
        loop = asyncio.create_task(shared.run())

        async def ask(thing: bytes, seconds: float) -> float:
            """A thousand a second; the part of them that was asked there."""
            asked, many = 0, round(seconds * 1000)
            for _ in range(many):
                if not shared.resting:
                    shared.look_up(thing, "who")
                    asked += 1
                await asyncio.sleep(0.001)
            return asked / many

        assert await ask(key(0), 60.0) < 0.05
        await store.keep([(key(1), b"v", TTL)])
        await ask(key(1), 40.0)
        assert await ask(key(1), 5.0) == 1.0  # where there is something to be known
        assert await ask(key(0), 1.0) > 0.4  # and then a few in vain are borne
        loop.cancel()
        await asyncio.wait([loop])

    run_virtual(body())
