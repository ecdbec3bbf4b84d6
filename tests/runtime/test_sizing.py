"""Costs by a user's function, which may be wrong, slow or broken."""

import asyncio
import logging
from collections.abc import Callable

import pytest
from runtime_kit import Station, ask

from penstock.adapters.memory import MemoryBroker
from penstock.core.queued import Queued
from penstock.errors import BatchRejected
from penstock.runtime.sizing import SizingBroker
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Outcome, Reply

MAX_COST = 100.0


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "penstock.worker")


class Office:
    """A sizing broker in front of a broker that only collects; `script` is the user's function."""

    def __init__(self, script: Callable[[Batch], Answer]) -> None:
        self.station = Station(MockBackend(script))
        self.sized: list[Queued] = []
        self.withdrawn: list[Queued] = []
        self.answers: list[Reply] = []
        onward = MemoryBroker[Queued]()
        onward.subscribe(self.sized.append, self.withdrawn.append)
        self.broker = SizingBroker(onward, self.answers.extend, MAX_COST)
        self.broker.subscribe(self.station.pump.offer, self.station.pump.withdraw)
        self.station.deliver = self.broker.sized


def costs(*outputs: bytes, seconds: float = 0.1) -> Callable[[Batch], Answer]:
    return lambda batch: Answer(seconds, outputs=outputs)


def test_a_sized_request_goes_on_with_its_cost() -> None:
    async def body() -> None:
        office = Office(costs(b"42"))
        async with office.station.running():
            request = ask()
            office.broker.publish(request)
            await asyncio.sleep(1.0)
        assert (office.sized, request.cost, office.answers) == ([request], 42.0, [])

    run_virtual(body())


@pytest.mark.parametrize("output", [b"101", b"-1", b"1e999", b'"many"', b"null", b"[1]"])
def test_a_cost_that_will_not_do_is_the_requests_failure(output: bytes) -> None:
    async def body() -> None:
        office = Office(costs(output))
        async with office.station.running():
            request = ask()
            office.broker.publish(request)
            await asyncio.sleep(1.0)
        (reply,) = office.answers
        assert (reply.request, reply.outcome, office.sized) == (request, Outcome.FAILED, [])
        assert reply.failure is not None
        assert reply.failure.code == "UNACCEPTABLE"

    run_virtual(body())


def test_an_input_the_function_fails_on_costs_its_own_request_only() -> None:
    def script(batch: Batch) -> Answer:
        if any(b"bad" in request.input for request in batch.requests):
            return Answer(0.01, error=BatchRejected("the function raised"))
        return Answer(0.01, outputs=(b"1",) * batch.size)

    async def body() -> None:
        office = Office(script)
        async with office.station.running():
            good, bad = [ask() for _ in range(7)], ask(text=b'"bad"')
            for request in (*good[:3], bad, *good[3:]):
                office.broker.publish(request)
            await asyncio.sleep(10.0)
        assert sorted(r.key for r in office.sized) == sorted(r.key for r in good)
        (reply,) = office.answers
        assert (reply.request, reply.outcome) == (bad, Outcome.FAILED)
        assert [request.executions for request in good] == [0] * 7  # sizing is not an attempt at the model

    run_virtual(body())


def test_a_request_that_expires_while_being_sized_is_answered() -> None:
    async def body() -> None:
        office = Office(costs(b"1", seconds=2.0))
        async with office.station.running():
            office.broker.publish(ask())
            await asyncio.sleep(0.1)
            late = ask(0.1, limit=1.0)
            office.broker.publish(late)
            await asyncio.sleep(5.0)
        assert [(reply.request, reply.outcome) for reply in office.answers] == [(late, Outcome.EXPIRED)]

    run_virtual(body())


@pytest.mark.parametrize("when", [0.0, 0.05])
def test_one_withdrawn_while_it_waits_or_is_being_sized_never_goes_on(when: float) -> None:
    async def body() -> None:
        office = Office(costs(b"1"))
        async with office.station.running():
            request = ask()
            office.broker.publish(request)
            if when:
                await asyncio.sleep(when)
            office.broker.withdraw(request)
            await asyncio.sleep(1.0)
        assert office.sized == office.withdrawn == []
        assert office.answers == []

    run_virtual(body())


def test_one_withdrawn_after_it_was_sized_is_withdrawn_from_the_model() -> None:
    async def body() -> None:
        office = Office(costs(b"1"))
        async with office.station.running():
            request = ask()
            office.broker.publish(request)
            await asyncio.sleep(1.0)
            office.broker.withdraw(request)
        assert office.withdrawn == [request]

    run_virtual(body())


def test_a_tenant_that_was_set_apart_for_what_it_is_sized_with_is_not_apart_for_the_model() -> None:
    """A request that says that it is apart is looked for among those that are, when its client leaves."""

    async def body() -> None:
        office = Office(costs(b"1"))
        async with office.station.running():
            request = ask()
            request.apart = True
            office.broker.publish(request)
            await asyncio.sleep(1.0)
        assert office.sized == [request]
        assert not request.apart

    run_virtual(body())
