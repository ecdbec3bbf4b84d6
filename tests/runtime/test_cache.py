"""Answers of deterministic models are given again: to whom they belong, while they are good."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from flights_kit import Airport, Asked, code

from penstock.errors import Overloaded
from penstock.runtime.collapse.sharing import FEW, WINDOW
from penstock.testing import MockAnswerStore, run_virtual
from penstock.types import Ask, Execution

TTL = 300.0


def executed(asked: Asked) -> Execution:
    execution = asked.answer.result().execution
    assert execution is not None
    return execution


def test_an_answer_is_given_again_without_an_execution_until_its_time_is_over() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)
        port.ask()
        port.succeed(port.published[0], b"7", seconds=0.1)
        await asyncio.sleep(TTL - 1)
        again = port.ask(request_id="mine")
        reply = again.answer.result()
        assert (reply.output, reply.request.request_id) == (b"7", "mine")
        execution = executed(again)
        assert (execution.cached, execution.counted, execution.version) == (True, False, "v1")
        assert (execution.started, execution.seconds) == (reply.request.arrival, 0.0)
        await asyncio.sleep(2)
        port.ask()
        assert len(port.published) == 2
        assert (port.sharing.hits, port.sharing.misses, port.sharing.stored) == (1, 2, 1)
        assert port.limiter.taken == 3

    run_virtual(body())


def test_a_hit_is_answered_also_when_the_queue_is_full() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)
        port.ask()
        port.succeed(port.published[0])
        port.refusal = Overloaded("full", retry_after=3.0)
        assert code(port.ask()) == ""
        task = await port.gateway.submit_task(Ask(b'"x"'))
        assert task.answer is not None
        with pytest.raises(Overloaded):
            port.ask(b'"y"')
        assert port.limiter.taken == port.limiter.released == 4

    run_virtual(body())


def test_only_successes_are_kept_and_nothing_at_all_without_a_cache() -> None:
    async def body() -> None:
        failing = Airport(ttl=TTL)
        failing.ask()
        failing.fail(failing.published[0])
        failing.ask()
        assert len(failing.published) == 2
        without = Airport(ttl=0.0)
        without.ask()
        without.succeed(without.published[0])
        without.ask()
        assert (len(without.published), without.memory.bytes) == (2, 0)

    run_virtual(body())


def test_a_new_version_is_not_served_what_an_old_one_said() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)
        port.ask()
        port.succeed(port.published[0], b"old", "v1")
        port.ask(b'"other"')
        port.succeed(port.published[1], b"o", "v2")  # told by a worker
        port.ask()
        port.succeed(port.published[2], b"new", "v2")
        again = port.ask()
        assert (again.answer.result().output, executed(again).version) == (b"new", "v2")
        assert port.ask(b'"other"').answer.result().output == b"o"  # kept under the version that made it

    run_virtual(body())


def test_tenants_do_not_see_each_others_answers() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)
        port.ask(who="acme")
        port.succeed(port.published[0])
        assert not port.ask(who="beta").answer.done()
        assert port.ask(who="acme").answer.done()

    run_virtual(body())


def test_in_the_shared_scope_another_tenants_answer_looks_like_one_that_was_executed() -> None:
    async def body() -> None:
        port = Airport(shared=True, ttl=TTL)
        port.ask(who="acme")
        port.succeed(port.published[0])
        own, others = executed(port.ask(who="acme")), executed(port.ask(who="beta"))
        assert (own.cached, own.batch_size) == (True, 0)
        assert (others.cached, others.batch_size, others.counted) == (False, 1, False)

    run_virtual(body())


def test_while_nothing_is_asked_twice_few_answers_are_kept_and_all_of_them_once_something_is() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)

        async def ask_once_each(first: int, many: int) -> int:
            """Ten times as many a second as are kept where few are."""
            before = port.sharing.stored
            for number in range(first, first + many):
                await asyncio.sleep(0.1 / FEW)
                port.ask(b'"%d"' % number)
                port.succeed(port.published[-1])
            return port.sharing.stored - before

        assert await ask_once_each(0, WINDOW) == WINDOW
        await ask_once_each(WINDOW, 200)  # and a second's worth at once
        assert await ask_once_each(2 * WINDOW, 1000) == pytest.approx(100, abs=1)
        for _ in range(1000):  # one question that comes again and again is soon among the few
            await asyncio.sleep(0.1 / FEW)
            port.ask(b'"again"')
            if port.queued:
                port.succeed(port.queued[0])
        assert port.sharing.hits > 900
        assert await ask_once_each(4 * WINDOW, 100) == 100

    run_virtual(body())


def test_a_server_with_little_to_do_keeps_every_answer() -> None:
    async def body() -> None:
        port = Airport(ttl=TTL)
        for number in range(2 * WINDOW):
            await asyncio.sleep(1.0 / FEW)
            port.ask(b'"%d"' % number)
            port.succeed(port.published[-1])
        assert port.sharing.stored == pytest.approx(2 * WINDOW, abs=FEW)

    run_virtual(body())


# ---- several gateways ----------------------------------------------------------------------------------------


@asynccontextmanager
async def running(*ports: Airport) -> AsyncIterator[None]:
    loops = [asyncio.create_task(port.elsewhere.run()) for port in ports if port.elsewhere is not None]
    yield
    for loop in loops:
        loop.cancel()
    await asyncio.wait(loops)


def test_what_one_gateway_has_learned_another_need_not_execute() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        one, two = Airport(ttl=TTL, store=store), Airport(ttl=TTL, store=store)
        async with running(one, two):
            one.ask()
            await asyncio.sleep(0.001)
            one.succeed(one.published[0], b"7")
            await asyncio.sleep(1.0)
            asked = [two.ask(), two.ask()]
            reply = await asked[0].answer
            assert (reply.output, executed(asked[1]).cached) == (b"7", True)
            assert two.ask().answer.done()  # from here on it is known there too
            assert (two.published, two.sharing.hits, two.empty) == ([], 3, True)

    run_virtual(body())


def test_nothing_is_given_again_after_its_time_though_it_was_copied() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        one, two = Airport(ttl=TTL, store=store), Airport(ttl=TTL, store=store)
        async with running(one, two):
            one.ask()
            await asyncio.sleep(0.001)
            one.succeed(one.published[0])
            await asyncio.sleep(0.89 * TTL)
            again = two.ask()
            await again.answer
            assert executed(again).cached
            await asyncio.sleep(0.12 * TTL)
            asked = two.ask()
            await asyncio.sleep(0.01)
            assert not asked.answer.done()

    run_virtual(body())


def test_all_lookups_of_one_turn_are_one_question() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        port = Airport(ttl=TTL, store=store)
        async with running(port):
            await asyncio.sleep(0.001)
            for number in range(50):
                port.ask(b'"%d"' % number)
            port.ask(b'"0"')
            await asyncio.sleep(0.001)
            assert store.fetches == [50]
            assert (len(port.published), port.sharing.misses) == (50, 51)
            for request in list(port.published):
                port.succeed(request)
            await asyncio.sleep(0.1)
            assert sum(store.writes) == 50
            assert len(store.writes) == 1

    run_virtual(body())


@pytest.mark.parametrize("trouble", ["away", "slow"])
def test_a_store_that_is_away_or_slow_is_bypassed_at_once(trouble: str) -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        port = Airport(ttl=TTL, store=store)
        store.down, store.seconds = trouble == "away", 60.0 if trouble == "slow" else 0.0
        async with running(port):
            port.ask()
            await asyncio.sleep(0.051)
            assert len(port.published) == 1
            port.ask(b'"y"')
            assert len(port.published) == 2  # while it is left alone, without even asking
            assert (port.sharing.bypassed, port.sharing.misses) == (2, 0)
            store.down, store.seconds = False, 0.0
            await asyncio.sleep(1.0)
            port.ask(b'"z"')
            await asyncio.sleep(0.001)
            assert (len(port.published), port.sharing.misses) == (3, 1)

    run_virtual(body())


def test_when_everybody_has_left_during_the_lookup_nothing_is_executed() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        store.seconds = 0.03
        port = Airport(ttl=TTL, store=store)
        async with running(port):
            asked = port.ask()
            await asyncio.sleep(0.01)
            asked.waiter.left()
            await asyncio.sleep(0.1)
            assert (port.published, port.withdrawn, port.empty) == ([], [], True)

    run_virtual(body())


def test_after_a_lookup_the_most_urgent_is_sent_and_who_is_not_let_in_is_told() -> None:
    async def body() -> None:
        store = MockAnswerStore(asyncio.get_running_loop().time)
        port = Airport(ttl=TTL, store=store)
        async with running(port):
            port.ask(tier=2)
            urgent = port.ask(tier=0)
            await asyncio.sleep(0.001)
            assert port.published == [urgent.waiter.request]
            port.refusal = Overloaded("full", retry_after=3.0)
            asked = [port.ask(b'"y"') for _ in range(2)]
            await asyncio.sleep(0.001)
            assert [code(each) for each in asked] == ["SERVICE_OVERLOADED"] * 2
            assert port.limiter.given_back == 2

    run_virtual(body())
