"""From a gateway to the batcher: the same promises in one process and over a Redis."""

import asyncio
from time import monotonic

import pytest
from houses import EVERY_HOUSE, Build, ask, house_of
from msgspec.structs import fields

from penstock.runtime.collapse.passenger import Passenger
from penstock.types import Request
from redis_servers import becomes

OWN = {"arrival", "expires", "deadline"}  # of the process that has it


@pytest.fixture(params=EVERY_HOUSE)
def build(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Build:
    return house_of(request.param, redis_urls)


WARM_UP = 48  # messages: each shard is met three times, over connections that are there by then


def test_a_request_arrives_as_it_was_sent(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            now = monotonic()
            sent = Passenger(
                "key", "model", '{"a": "ü\\u0000"}'.encode(), now, now + 70, now + 72, "id",
                b'{"t":1}', "anna", 2, 3.5, 17, "00-abc-def-01", task=True,
            )  # fmt: skip
            house.broker.publish(sent)
            await house.inbox.gets(1)
            (got,) = house.inbox.requests
            for field in fields(Request):
                if field.name not in OWN:
                    assert getattr(got, field.name) == getattr(sent, field.name), field.name
            now = monotonic()
            assert sent.arrival <= got.arrival + 0.001
            assert 0 < got.expires - now <= 70
            assert got.deadline - got.expires == pytest.approx(2, abs=0.01)

    asyncio.run(body())


def test_each_arrives_once_however_many_there_are(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            sent = [ask() for _ in range(600)]
            for number, request in enumerate(sent):
                house.broker.publish(request)
                if number % 50 == 0:
                    await asyncio.sleep(0.001)
            await house.inbox.gets(600)
            assert sorted(house.inbox.keys) == sorted(request.key for request in sent)

    asyncio.run(body())


def test_what_is_sent_together_arrives_in_order(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            sent = [ask() for _ in range(50)]
            for request in sent:
                house.broker.publish(request)
            await house.inbox.gets(50)
            assert house.inbox.keys == [request.key for request in sent]

    asyncio.run(body())


def test_the_order_of_what_comes_one_by_one_is_told_by_its_arrival(build: Build) -> None:
    """Once the way is known: how long it takes is told from the quickest message so far."""

    async def body() -> None:
        async with build() as house:
            sent = []
            for _ in range(WARM_UP + 10):
                sent.append(ask())
                house.broker.publish(sent[-1])
                await house.inbox.gets(len(sent))
            late = {request.key for request in sent[WARM_UP:]}
            arrived = sorted(house.inbox.requests, key=lambda request: request.arrival)
            assert [r.key for r in arrived if r.key in late] == [r.key for r in sent[WARM_UP:]]

    asyncio.run(body())


def test_what_is_withdrawn_is_given_up_and_nothing_else_is(build: Build) -> None:
    async def body() -> None:
        async with build() as house:
            sent = [ask() for _ in range(6)]
            for request in sent:
                house.broker.publish(request)
            await house.inbox.gets(6)
            for request in sent[::2]:
                house.broker.withdraw(request)
            await house.inbox.gives_up(*sent[::2])
            house.broker.publish(last := ask())
            await house.inbox.gets(7)
            assert house.inbox.keys[-1] == last.key
            assert [request.key for request in house.inbox.withdrawn] == [
                request.key for request in sent[::2]
            ]

    asyncio.run(body())


def test_what_is_withdrawn_at_once_never_waits_at_the_batcher(build: Build) -> None:
    """It did not leave, or it is given up as soon as it is there."""

    async def body() -> None:
        async with build() as house:
            sent = [ask() for _ in range(5)]
            for request in sent:
                house.broker.publish(request)
                house.broker.withdraw(request)
            house.broker.publish(last := ask())
            await becomes(lambda: last.key in house.inbox.keys)
            left = set(house.inbox.keys) - {request.key for request in house.inbox.withdrawn}
            assert left == {last.key}

    asyncio.run(body())
