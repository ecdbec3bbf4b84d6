"""Idempotency-Key over a Redis when a gateway dies, and when Redis does."""

import asyncio

import pytest
from houses import BusHouse, ask, house_at

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.records import idempotency as keyed_module
from penstock.adapters.redis.records.idempotency import RedisClaims
from penstock.idempotency import keyed
from penstock.testing import Recorder
from penstock.types import Outcome
from penstock.words.messages import task_name
from redis_servers import VALKEY, becomes, redis_server


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("published", [True, False])
def test_a_gateway_that_dies_before_it_has_placed_a_request_does_not_keep_its_key(
    redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch, waits: bool, published: bool
) -> None:
    """Killed before it published, or after and before it could say so: then it may be executed twice."""
    monkeypatch.setattr(keyed_module, "PLACED_AT_MOST", 0.2)

    async def body() -> None:
        async with house_at(redis_urls["valkey"])() as house:
            assert isinstance(house, BusHouse)
            here, there = house.gates
            request, again = (ask() for _ in range(2))
            name = keyed("k", request)
            claims = RedisClaims(house.store, Post(house.store), 60.0, 5.0)
            request.request_id, request.task = name.id, True
            assert (await claims.claim(name, request, "mine", 10.0)).ours
            if published:
                await here.publisher.accepted(request)
            recorder = Recorder()
            if waits:
                there.door.ask(name, again, recorder)
            else:
                _, repeated = await there.door.ask_task(name, again)
                assert not repeated
            await house.inbox.gets(2 if published else 1)
            for number, each in enumerate(house.inbox.requests):
                await house.end(each, Outcome.SUCCESS, b"%d" % number, None)
            if waits:
                async with asyncio.timeout(60.0):
                    assert (await recorder.answer).output == b"0"
            assert (await there.desk.find(name.id, "")).answer.output == b"0"  # type: ignore[union-attr]

    asyncio.run(body())


def test_an_outage_is_waited_out_and_what_cannot_be_asked_is_refused() -> None:
    async def body() -> None:
        with redis_server(VALKEY) as server:
            async with house_at(server.url)() as house:
                first, late = Recorder(), Recorder()
                asked, other = (ask() for _ in range(2))
                house.door.ask(keyed("k", asked), asked, first)
                await house.inbox.gets(1)
                server.restart()  # empty: of the record only we know
                assert isinstance(house, BusHouse)
                known = keyed("k", asked)
                record = house.store.keys.task(task_name(known.tenant, known.id))
                await becomes(lambda: bool(server.command("EXISTS", record)))
                await house.end(house.inbox.requests[0], Outcome.SUCCESS, b"1", None)
                async with asyncio.timeout(60.0):
                    assert (await first.answer).output == b"1"
                assert len(house.inbox.requests) == 1  # the batcher has not forgotten it
                server.kill()
                house.back_door.ask(keyed("another", other), other, late)
                async with asyncio.timeout(60.0):
                    refused = (await late.answer).failure
                assert refused is not None
                assert (refused.code, refused.retry_after) == ("STORE_UNAVAILABLE", 1.0)
                server.start()

    asyncio.run(body())
