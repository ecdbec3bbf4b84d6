"""The first reply is the answer; whatever comes later finds nobody waiting."""

import asyncio

import pytest
from runtime_kit import answer, ask

from penstock.runtime.waiters import WITHDRAWN, Waiters
from penstock.runtime.wheel import Wheel
from penstock.testing import Recorder, run_virtual
from penstock.types import Outcome, Reply, Request


class Hall:
    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.withdrawn: list[Request] = []
        self.settled: list[Reply] = []
        self.waiters = Waiters(Wheel(loop, loop.time), self.withdrawn.append, settled=self.settled.extend)


def test_only_the_first_reply_counts() -> None:
    async def body() -> None:
        hall, asker, request = Hall(), Recorder(), ask()
        hall.waiters.add(request, asker)
        first, second = answer(request, b"1"), answer(request, b"2")
        hall.waiters.settle([first, second])
        hall.waiters.settle([second])
        assert asker.answer.result() is first
        assert (hall.settled, len(hall.waiters)) == ([first], 0)

    run_virtual(body())


def test_an_asker_that_fails_does_not_keep_the_others_from_their_answers(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Broken(Recorder):
        def reply(self, reply: Reply) -> None:
            raise OSError("the connection is closed")

    async def body() -> None:
        hall, sound, requests = Hall(), Recorder(), (ask(), ask())
        for asker, request in zip((Broken(), sound), requests, strict=True):
            hall.waiters.add(request, asker)
        hall.waiters.settle([answer(request) for request in requests])
        assert sound.answer.result().request is requests[1]
        assert len(hall.waiters) == 0

    run_virtual(body())
    assert [record.message for record in caplog.records] == ["an answer could not be given"]


def test_a_reply_to_nobody_is_nothing() -> None:
    async def body() -> None:
        hall = Hall()
        hall.waiters.settle([answer(ask())])
        assert hall.settled == []

    run_virtual(body())


def test_at_the_deadline_the_asker_is_answered_and_the_request_withdrawn() -> None:
    async def body() -> None:
        hall, asker, request = Hall(), Recorder(), ask(limit=1.0)
        hall.waiters.add(request, asker)
        reply = await asker.answer
        assert 1.0 <= asyncio.get_running_loop().time() <= 1.0 + 0.1 + 1e-9
        assert reply.outcome is Outcome.EXPIRED
        assert reply.failure is not None
        assert reply.failure.code == "DEADLINE_EXCEEDED"
        assert hall.withdrawn == [request]

    run_virtual(body())


def test_who_waits_in_vain_is_told_which_setting_ended_the_wait() -> None:
    async def body() -> None:
        hall, asker, other = Hall(), Recorder(), Recorder()
        own, usual = ask(limit=0.25), ask(limit=4.0)
        usual.expires = 2.0
        hall.waiters.add(own, asker)
        hall.waiters.add(usual, other)
        first, second = (await asker.answer).failure, (await other.answer).failure
        assert first is not None
        assert second is not None
        assert first.message == "no answer within its timeout_ms, 250"
        assert second.message == "no answer within the 4 s that timeouts.request allows"

    run_virtual(body())


def test_a_reply_after_the_deadline_finds_nobody() -> None:
    async def body() -> None:
        hall, asker, request = Hall(), Recorder(), ask(limit=1.0)
        hall.waiters.add(request, asker)
        await asyncio.sleep(2.0)
        hall.waiters.settle([answer(request)])
        assert [reply.outcome for reply in hall.settled] == [Outcome.EXPIRED]
        assert asker.answer.result().outcome is Outcome.EXPIRED

    run_virtual(body())


def test_a_client_that_leaves_takes_its_request_along() -> None:
    async def body() -> None:
        hall, client, request = Hall(), Recorder(), ask()
        hall.waiters.add(request, client).left()
        reply = await client.answer
        assert (reply.outcome, hall.withdrawn) == (Outcome.CANCELLED, [request])
        assert reply.failure is not None
        assert reply.failure.code == "CLIENT_LEFT"

    run_virtual(body())


def test_giving_up_twice_or_after_the_answer_changes_nothing() -> None:
    async def body() -> None:
        hall, asker, request = Hall(), Recorder(), ask()
        waiter = hall.waiters.add(request, asker)
        waiter.end(WITHDRAWN)
        waiter.end(WITHDRAWN)
        assert (len(hall.settled), hall.withdrawn) == (1, [request])
        assert asker.answer.result().outcome is Outcome.CANCELLED

    run_virtual(body())


def test_once_answered_a_waiter_holds_on_to_nothing() -> None:
    async def body() -> None:
        hall, asker, request = Hall(), Recorder(), ask()
        waiter = hall.waiters.add(request, asker)
        hall.waiters.settle([answer(request)])
        with pytest.raises(AttributeError):
            _ = waiter.request

    run_virtual(body())


def test_a_request_can_be_found_by_its_askers_id() -> None:
    async def body() -> None:
        hall, request = Hall(), ask()
        hall.waiters.add(request, Recorder())
        assert hall.waiters.find(request.request_id) is request
        assert hall.waiters.find("nobody") is None

    run_virtual(body())
