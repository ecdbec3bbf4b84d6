"""From an ask to an accepted request, or to a refusal."""

import asyncio

import pytest
from runtime_kit import Door

from penstock.errors import Draining, NotFound, Overloaded, OverQuota, TooLarge, Unacceptable, about
from penstock.quota import Limits
from penstock.testing import run_virtual
from penstock.types import Ask, Failure


def test_an_accepted_request_carries_its_limits_and_its_asker() -> None:
    async def body() -> None:
        door = Door()
        await asyncio.sleep(1.0)
        door.submit(Ask(b'"x"', client_id="acme", request_id="mine", traceparent="00-1"))
        (request,) = door.published
        assert (request.arrival, request.expires, request.deadline) == (1.0, 3.0, 5.0)
        assert (request.tenant, request.tier, request.request_id) == ("acme", 1, "mine")
        assert (request.traceparent, request.key[:3], request.length) == ("00-1", "id-", 3)

    run_virtual(body())


def test_what_goes_in_the_background_goes_in_the_last_tier_at_the_cost_of_its_own_tenant() -> None:
    async def body() -> None:
        door = Door(limits=Limits(requests_per_minute=10))
        door.submit(Ask(b'"x"', client_id="acme"))
        door.submit(Ask(b'"x"', client_id="acme", background=True))
        assert [(request.tenant, request.tier) for request in door.published] == [("acme", 1), ("acme", 2)]
        assert door.published[0].account is door.published[1].account
        assert door.remaining == 8

    run_virtual(body())


def test_a_tier_may_have_time_limits_of_its_own_and_a_client_s_own_go_before_them() -> None:
    async def body() -> None:
        door = Door()
        door.submit(Ask(b'"x"', client_id="hurried"))
        door.submit(Ask(b'"x"', client_id="hurried", timeout=0.5))
        limits = [(request.expires, request.deadline) for request in door.published]
        assert limits == [(0.2, 0.3), (0.5, 0.5)]

    run_virtual(body())


def test_a_client_may_ask_for_less_or_more_time_up_to_the_longest() -> None:
    async def body() -> None:
        door = Door()
        for timeout in (0.5, 50.0, 500.0):
            door.submit(Ask(b'"x"', timeout=timeout))
        limits = [(request.expires, request.deadline) for request in door.published]
        assert limits == [(0.5, 0.5), (50.0, 50.0), (60.0, 60.0)]

    run_virtual(body())


def test_a_tenant_has_its_minute_again_when_that_is_over_and_no_more_in_flight_than_it_may() -> None:
    async def body() -> None:
        door = Door(limits=Limits(requests_per_minute=10, in_flight=3))
        told: list[int] = []
        for _ in range(3):
            for _ in range(3):
                door.submit(Ask(b'"x"', client_id="acme", timeout=60.0))
                told.append(door.remaining)
            with pytest.raises(OverQuota, match="3 requests in flight"):
                door.submit(Ask(b'"x"', client_id="acme"))
            for number in (-3, -2, -1):
                door.answer(number)
            await asyncio.sleep(0.01)
        assert told == [9, 8, 7, 6, 5, 4, 3, 2, 1]
        door.submit(Ask(b'"x"', client_id="acme"))
        with pytest.raises(OverQuota, match="10 requests per minute"):
            door.submit(Ask(b'"x"', client_id="acme"))
        await asyncio.sleep(30.0)
        with pytest.raises(OverQuota):
            door.submit(Ask(b'"x"', client_id="acme"))
        await asyncio.sleep(30.6)
        for remaining in (9, 8):
            door.submit(Ask(b'"x"', client_id="acme"))
            assert door.remaining == remaining
        await asyncio.sleep(61.0)
        door.submit(Ask(b'"x"', client_id="acme"))
        assert door.remaining == 9

    run_virtual(body())


def test_what_is_refused_at_the_door_leaves_nothing_behind() -> None:
    async def body() -> None:
        door = Door()
        door.refusal = Overloaded("full", retry_after=3.0)
        with pytest.raises(Overloaded) as refused:
            door.submit(Ask(b'"x"'))
        assert refused.value.retry_after == 3.0
        assert (door.published, len(door.gateway.waiters)) == ([], 0)

    run_virtual(body())


def test_a_model_nobody_knows_and_parameters_nobody_takes_are_refused() -> None:
    async def body() -> None:
        door = Door()
        with pytest.raises(NotFound, match="this server has model"):
            door.submit(Ask(b'"x"', model="other"))
        with pytest.raises(NotFound):
            door.gateway.kind_of("other")
        with pytest.raises(Unacceptable, match="takes no parameters"):
            door.submit(Ask(b'"x"', parameters=b'{"a":1}'))
        assert door.gateway.kind_of(None) == door.gateway.models["model"] == "text"

    run_virtual(body())


def test_refusals_are_counted_under_known_models_only() -> None:
    async def body() -> None:
        door = Door()
        for model, error in ("model", TooLarge("no")), ("made up by a client", NotFound("no")):
            door.gateway.count(about(error, model, ""), Failure.of(error), "r1", "native")
        assert door.observed.refusals == [("model", "TOO_LARGE"), ("", "NOT_FOUND")]

    run_virtual(body())


def test_draining_ends_when_the_last_asker_is_answered() -> None:
    async def body() -> None:
        door = Door()
        for _ in range(2):
            door.submit(Ask(b'"x"'))
        door.loop.call_later(0.5, door.answer, 0)
        door.loop.call_later(1.0, door.answer, 1)
        assert await door.gateway.drained(3.0)
        assert door.loop.time() == pytest.approx(1.0)
        assert len(door.observed.replies) == 2

    run_virtual(body())


def test_draining_gives_up_when_its_time_is_over() -> None:
    async def body() -> None:
        door = Door()
        door.submit(Ask(b'"x"', timeout=50.0))
        assert not await door.gateway.drained(3.0)
        assert door.loop.time() == pytest.approx(3.0)

    run_virtual(body())


def test_a_draining_gateway_takes_nothing_more_and_says_when_to_come_back() -> None:
    async def body() -> None:
        door = Door()
        assert await door.gateway.drained(3.0)  # nobody waits: at once
        assert door.loop.time() == 0.0
        with pytest.raises(Draining) as refused:
            door.submit(Ask(b'"x"'))
        assert refused.value.retry_after == 7.0

    run_virtual(body())


def test_an_accepted_request_can_be_described_by_its_askers_id() -> None:
    async def body() -> None:
        door = Door()
        door.submit(Ask(b'"x"', request_id="mine", client_id="acme"))
        await asyncio.sleep(1.0)
        found = door.gateway.describe("mine")
        assert found is not None
        assert (found["age_ms"], found["deadline_in_ms"], found["tenant"]) == (1000.0, 3000.0, "acme")
        assert door.gateway.describe("nobody") is None
        door.answer()
        assert door.gateway.describe("mine") is None  # nobody waits for it any more

    run_virtual(body())
