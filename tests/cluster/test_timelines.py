"""What any gateway tells of a request that has ended at one of them, though others batched and ran it."""

from typing import Any

from town import SECONDS, Town, doubled, replies

from penstock.cluster.gateway import GatewayMember
from penstock.errors import BatchRejected
from penstock.moments import Moments
from penstock.testing import Answer, Recorder, run_virtual
from penstock.types import Ask, Batch


async def town_of_two(town: Town) -> Town:
    for _ in range(2):
        await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town


async def asked(gateway: GatewayMember, request_id: str) -> dict[str, Any]:
    found = await gateway.request(request_id, "")
    assert found is not None
    return dict(found)


def send(gateway: GatewayMember, number: int, request_id: str) -> Recorder:
    asker = Recorder()
    gateway.gateway.submit(Ask(b'"%d"' % number, "double", request_id=request_id), asker)
    return asker


def test_a_gateway_tells_when_and_why_a_batcher_sealed_what_another_gateway_took_in() -> None:
    async def body() -> None:
        town = await town_of_two(Town())
        one, two = town.gateways
        await replies([send(one, 1, "mine")])
        for said in await asked(one, "mine"), await asked(two, "mine"):
            moments = said["timeline_ms"]
            assert list(moments) == list(Moments._fields)
            assert list(moments.values()) == sorted(moments.values())
            assert moments["ended"] - moments["started"] == SECONDS * 1e3
            assert said["reason"] == "idle"
            assert "attempts" not in said
        assert await two.request("unknown", "") is None
        await town.stop()

    run_virtual(body())


def test_every_gateway_lists_the_slowest_of_all() -> None:
    async def body() -> None:
        town = await town_of_two(Town())
        one, two = town.gateways
        await replies([send(one, 1, "first"), send(two, 2, "second")])
        for gateway in town.gateways:
            slowest = await gateway.slowest(5, "double")
            assert sorted(each["request_id"] for each in slowest) == ["first", "second"]
            assert {each["gateway"] for each in slowest} == {one.name, two.name}
            assert len(await gateway.slowest(1, "")) == 1
            assert await gateway.slowest(5, "unknown") == []
        await town.stop()

    run_virtual(body())


def test_a_gateway_that_does_not_answer_holds_nobody_up() -> None:
    async def body() -> None:
        town = await town_of_two(Town())
        one, two = town.gateways
        await replies([send(one, 1, "first")])
        await town.vanish(two)
        assert [each["request_id"] for each in await one.slowest(5, "")] == ["first"]
        await town.stop()

    run_virtual(body())


def test_earlier_attempts_are_told_whether_the_last_one_went_well_or_not() -> None:
    failed: list[bytes] = []

    def once_or_for_ever(batch: Batch) -> Answer:
        given = batch.requests[0].input
        if given == b'"2"' or given not in failed:
            failed.append(given)
            return Answer(SECONDS, error=BatchRejected("not today", details="of 'an input'"))
        return doubled(batch)

    async def body() -> None:
        town = await town_of_two(Town(once_or_for_ever))
        one, two = town.gateways
        await replies([send(one, 1, "again"), send(one, 2, "never")])
        said = await asked(two, "again")
        (attempt,) = said["attempts"]
        assert (said["status"], attempt["error"], attempt["message"]) == (
            "SUCCESS",
            "BACKEND_FAILED",
            "not today",
        )
        assert SECONDS * 1e3 <= attempt["after_ms"] <= said["timeline_ms"]["started"]
        assert attempt["worker"] in {row.worker for row in one.workers()}
        said = await asked(two, "never")
        assert (said["status"], said["attempts"][-1]["message"]) == ("FAILED", "not today")
        assert len(said["attempts"]) >= town.config.retries.attempts
        assert "an input" not in str(said)
        await town.stop()

    run_virtual(body())
