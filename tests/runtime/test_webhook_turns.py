"""Webhooks of many tenants, in virtual time: whose turn it is, and what is still tried at the end."""

import asyncio
import logging
from typing import Any

import pytest
from webhook_kit import Target, Work, tell

from penstock.ports.webhooks import Posted
from penstock.runtime import webhooks as module
from penstock.runtime.webhook_turns import Turns
from penstock.runtime.webhooks import AT_ONCE, AT_ONCE_TO_ONE, Webhooks
from penstock.testing import run_virtual

URL = "https://hooks.example/done"


def anywhere(target: Target, **more: Any) -> Webhooks:
    given = {"attempts": 4, "base": 10.0, "longest": 60.0, "most": 10_000, "share": 1.0, **more}
    return Webhooks(target, ["*"], "secret", lambda: 0.0, **given)


def over(hooks: Webhooks, name: str, url: str, tenant: str) -> None:
    work = Work(name)
    work.end()
    hooks.promise(url, work, tenant, tell)


def names(target: Target) -> list[str]:
    return [each[2]["webhook-id"] for each in target.messages]


def test_a_tenant_that_names_many_slow_addresses_holds_up_no_other_tenant() -> None:
    async def scene() -> None:
        target = Target(takes=10.0)
        hooks = anywhere(target)
        for number in range(200):
            over(hooks, f"slow-{number}", f"https://slow-{number}.example/", "acme")
        await asyncio.sleep(1)
        assert target.at_once == AT_ONCE // 4
        over(hooks, "other", "https://other.example/", "beta")
        await asyncio.sleep(1)
        assert names(target)[-1] == "other"
        await asyncio.sleep(1000)
        assert sorted(names(target)) == sorted([f"slow-{number}" for number in range(200)] + ["other"])
        assert hooks._turns.is_quiet

    run_virtual(scene())


def test_where_many_tenants_wait_each_has_its_turn_also_at_one_address() -> None:
    async def scene() -> None:
        for urls in ([URL] * 50, [f"https://slow-{number}.example/" for number in range(50)]):
            target = Target(takes=10.0)
            hooks = anywhere(target)
            for tenant in range(5):
                for url in urls:
                    over(hooks, f"slow-{tenant}", url, f"tenant-{tenant}")
            await asyncio.sleep(1)
            assert target.at_once == (AT_ONCE_TO_ONE if urls[0] == URL else AT_ONCE)
            over(hooks, "late", URL, "late")
            await asyncio.sleep(30)  # each of the others has had a turn or two, and not one is through
            assert names(target).index("late") <= 2 * AT_ONCE
            await hooks.close()
            assert not hooks._under_way

    run_virtual(scene())


def test_who_is_given_up_while_it_is_called_leaves_its_place_to_the_next() -> None:
    async def scene() -> None:
        turns = Turns(1, 1, 1)

        async def take() -> None:
            async with turns.turn("acme", "https://a.example"):
                await asyncio.sleep(1)

        first, second, third = (asyncio.create_task(take()) for _ in range(3))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)  # the second is called now
        second.cancel()
        await asyncio.gather(second, third, return_exceptions=True)
        assert (first.cancelled(), second.cancelled(), third.cancelled()) == (True, True, False)
        assert turns.is_quiet

    run_virtual(scene())


def test_at_the_end_each_that_is_due_is_tried_once_as_far_as_a_moment_goes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scene() -> None:
        target = Target([Posted(500)], takes=0.5)
        hooks = anywhere(target)
        over(hooks, "tried", "https://tried.example/", "acme")
        await asyncio.sleep(1)
        hooks.promise(URL, Work("not over"), "acme", tell)
        for number in range(20):  # to one address: four at once, each takes half a second
            over(hooks, f"due-{number}", URL, "acme")
        just = Work("just over")
        hooks.promise("https://just.example/", just, "beta", tell)
        await asyncio.sleep(0)
        just.end()
        began = asyncio.get_running_loop().time()
        await hooks.close()
        assert asyncio.get_running_loop().time() - began == module.LAST_WORDS
        assert {"tried", "just over"} <= set(names(target))
        # Those of the first three rounds, and of the fourth, which is taken or not at the very end.
        assert 12 <= sum(name.startswith("due-") for name in names(target)) <= 20
        assert len(names(target)) == len(set(names(target)))
        assert (target.at_once, hooks._under_way, target.closed) == (0, set(), True)

    with caplog.at_level(logging.WARNING):
        run_virtual(scene())
    [record] = caplog.records
    assert record.message == "webhooks were not delivered before the end"
    assert (
        6 <= vars(record)["webhooks"] <= 10
    )  # the one that was tried, the one that is not over, and the rest


def test_at_the_end_what_is_not_taken_is_not_waited_for_once_more(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        target = Target([Posted(500), Posted(200)])
        hooks = anywhere(target)
        for name in ("refused", "taken"):
            over(hooks, name, URL, "acme")
        began = asyncio.get_running_loop().time()
        await hooks.close()
        assert asyncio.get_running_loop().time() == began
        assert names(target) == ["refused", "taken"]

    with caplog.at_level(logging.WARNING):
        run_virtual(scene())
    assert [vars(record)["webhooks"] for record in caplog.records] == [1]
