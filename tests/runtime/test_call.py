"""Several asks of one call: let in together or not at all, answered together, and withdrawn together."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from functools import wraps
from typing import Any

import pytest
from flights_kit import Airport
from runtime_kit import Door

from penstock.errors import Overloaded, OverQuota
from penstock.ports import Leaving
from penstock.quota import Limits
from penstock.testing import MockAnswerStore, run_virtual
from penstock.types import Ask, Failure, Identity, Outcome, Reply


class Caller:
    """Whom a call is answered; a second answer is an error."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[list[Reply]] = asyncio.get_running_loop().create_future()

    def answered(self, replies: Sequence[Reply]) -> None:
        self.answer.set_result(list(replies))

    @property
    def outputs(self) -> list[bytes]:
        return [reply.output for reply in self.answer.result()]

    @property
    def code(self) -> str:
        [reply] = self.answer.result()
        assert reply.failure is not None
        return reply.failure.code


def virtual(scene: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(scene)
    def test() -> None:
        run_virtual(scene())

    return test


def call(place: Door | Airport, *texts: bytes, client: str = "acme") -> tuple[Caller, Leaving]:
    caller = Caller()
    who = Identity(client, "1", "key") if isinstance(place, Airport) else None
    asks = [Ask(b'"%b"' % text, client_id=client, identity=who) for text in texts]
    return caller, place.gateway.submit_all(asks, caller)


@virtual
async def test_the_replies_come_together_and_in_the_order_of_the_asks() -> None:
    door = Door()
    caller, _ = call(door, b"a", b"b", b"c")
    for number in (1, 2, 0):
        assert not caller.answer.done()
        door.answer(number, b"%d" % number)
    assert caller.outputs == [b"0", b"1", b"2"]
    assert len(door.observed.replies) == 3
    assert len(door.gateway.waiters) == 0


@virtual
async def test_a_refusal_takes_back_what_was_let_in_before_it_and_is_the_only_trace() -> None:
    door = Door(limits=Limits(requests_per_minute=10, in_flight=4))
    with pytest.raises(OverQuota, match="4 requests in flight"):
        call(door, b"a", b"b", b"c", b"d", b"e")
    assert door.withdrawn == door.published
    assert (len(door.gateway.waiters), door.observed.replies) == (0, [])
    await asyncio.sleep(10.0)  # no deadline is left to pass
    assert door.observed.replies == []
    caller, _ = call(door, b"a", b"b", b"c", b"d")
    assert door.remaining == 6  # of ten: nothing was counted before
    for number in (-4, -3, -2, -1):
        door.answer(number)
    assert len(caller.outputs) == 4


@virtual
async def test_what_is_sure_to_be_refused_is_refused_when_the_first_of_it_is_in() -> None:
    door = Door(room=5)
    with pytest.raises(Overloaded, match="no room for them all") as caught:
        call(door, *[b"x"] * 1000)
    assert (caught.value.model, caught.value.tenant) == ("model", "acme")
    assert len(door.published) == 1
    assert door.withdrawn == door.published
    assert len(door.gateway.waiters) == 0
    call(door, *[b"x"] * 6)
    assert len(door.published) == 1 + 6


@virtual
async def test_of_asks_that_differ_each_is_asked_for() -> None:
    door = Door(room=5)
    asks = [Ask(b'"x"', timeout=1.0 + number) for number in range(20)]
    door.gateway.submit_all(asks, Caller())
    assert len(door.published) == 20


@virtual
async def test_what_an_airport_took_back_is_given_back_to_the_quota_and_to_the_places() -> None:
    """Also what was like another, and what was answered from memory: that is no outcome either."""
    airport = Airport(ttl=60.0)
    known, _ = call(airport, b"known")
    airport.succeed(airport.published[-1])
    assert known.outputs == [b"1"]
    taken, seen = airport.limiter.taken, len(airport.observed.replies)
    airport.refusals = [None, None, Overloaded("full")]
    with pytest.raises(Overloaded):
        call(airport, b"a", b"known", b"a", b"b", b"c")
    assert len(airport.observed.replies) == seen
    assert airport.limiter.taken - taken == 5
    assert airport.limiter.given_back == 5
    assert airport.empty
    assert airport.queued == []


@virtual
async def test_answers_from_memory_are_joined_with_those_that_are_executed() -> None:
    airport = Airport(ttl=60.0)
    call(airport, b"known")
    airport.succeed(airport.published[-1], b"old")
    caller, _ = call(airport, b"a", b"known", b"a")
    assert not caller.answer.done()
    airport.succeed(airport.published[-1], b"new")
    assert caller.outputs == [b"new", b"old", b"new"]
    again, leaving = call(airport, b"a", b"known")
    assert again.outputs == [b"new", b"old"]
    leaving.left()
    assert len(airport.observed.replies) == 6
    assert airport.empty


@virtual
async def test_answers_of_other_gateways_are_joined_too() -> None:
    store = MockAnswerStore(asyncio.get_running_loop().time)
    airport = Airport(ttl=60.0, store=store)
    assert airport.elsewhere is not None
    running = asyncio.create_task(airport.elsewhere.run())
    caller, _ = call(airport, b"a", b"b")
    await asyncio.sleep(0.1)
    for request in list(airport.published):
        airport.succeed(request, request.input)
    assert caller.outputs == [b'"a"', b'"b"']
    running.cancel()


@virtual
async def test_the_first_failure_is_the_answer_and_the_others_are_withdrawn() -> None:
    door = Door()
    caller, _ = call(door, b"a", b"b", b"c")
    door.answer(0)
    failed = Failure("BACKEND_FAILED", "it was told to")
    replies = [Reply(request, Outcome.FAILED, failure=failed) for request in door.published[1:]]
    door.gateway.waiters.settle(replies)  # of one batch
    assert caller.code == "BACKEND_FAILED"
    assert door.withdrawn == [door.published[2]]
    assert [reply.outcome for reply in door.observed.replies] == ["SUCCESS", "CANCELLED", "FAILED"]
    assert len(door.gateway.waiters) == 0


@virtual
async def test_a_deadline_is_that_of_all() -> None:
    door = Door()
    caller, _ = call(door, b"a", b"b")
    door.answer(0)
    await asyncio.sleep(5.0)
    assert caller.code == "DEADLINE_EXCEEDED"
    assert len(door.gateway.waiters) == 0


@virtual
async def test_a_caller_that_leaves_takes_all_along_and_is_told_nothing() -> None:
    door = Door()
    caller, leaving = call(door, b"a", b"b", b"c")
    door.answer(1)
    leaving.left()
    leaving.left()
    assert not caller.answer.done()
    assert door.withdrawn == [door.published[0], door.published[2]]
    codes = [reply.failure.code for reply in door.observed.replies if reply.failure is not None]
    assert codes == ["CLIENT_LEFT"] * 2


@virtual
async def test_a_caller_that_cannot_be_answered_keeps_nobody_from_theirs() -> None:
    door = Door()
    caller, _ = call(door, b"a", b"b")
    caller.answer.cancel()  # so that to answer it is an error
    other, _ = call(door, b"c")
    door.gateway.waiters.settle([Reply(request, Outcome.SUCCESS, b"1") for request in door.published])
    assert other.outputs == [b"1"]
