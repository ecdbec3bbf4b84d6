"""Settings that change in processes over a bus: each takes over what concerns it, and workers announce the rest."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from town import Town, replies

from penstock.config import Config, Level, Limits, Tiers, Timeouts
from penstock.errors import Overloaded, OverQuota
from penstock.testing import run_virtual


def changed(config: Config, **model: Any) -> Config:
    return replace(config, models={"double": replace(config.models["double"], **model)})


def test_a_worker_announces_another_policy_and_batchers_follow_while_requests_wait() -> None:
    async def body() -> None:
        town = await whole(Town())
        [gateway], [batcher], [worker] = town.gateways, town.batchers, town.workers
        pump = batcher._pumps["double"]
        before, now = town.config, changed(town.config, policy="window", max_wait=3.0)
        worker.follow(before, now)
        await town.settle_down()
        assert pump.batcher.rules.policy == "window"
        began = town.clock()
        asker = town.send(gateway, 1)
        await asyncio.sleep(0.5)
        worker.follow(now, changed(town.config, policy="greedy"))
        await replies([asker])
        assert town.clock() - began < 1.5
        await town.stop()

    run_virtual(body())


def test_what_cannot_be_followed_changes_nothing() -> None:
    async def body() -> None:
        town = await whole(Town())
        [batcher], [worker] = town.batchers, town.workers
        worker.follow(town.config, changed(town.config, policy="greedy", max_batch=3))
        await town.settle_down()
        rules = batcher._pumps["double"].batcher.rules
        assert (rules.policy, rules.max_batch) == ("paced", 16)
        # What the batcher itself is configured with is followed all the same.
        lanes = replace(town.config, limits=Limits(max_lanes=7))
        batcher.follow(town.config, lanes)
        rules = batcher._pumps["double"].batcher.rules
        assert (rules.policy, rules.max_lanes) == ("paced", 7)
        await town.stop()

    run_virtual(body())


def test_a_gateway_takes_over_quotas_limits_and_time_limits() -> None:
    async def body() -> None:
        town = await whole(Town())
        [gateway] = town.gateways
        now = replace(
            town.config,
            tiers=Tiers(default="all", levels={"all": Level(0, requests_per_minute=2)}),
            timeouts=Timeouts(request=9.0),
        )
        gateway.follow(town.config, now)
        assert gateway.gateway._desks["double"].time_limits[0][1] == 9.0
        await replies([town.send(gateway, number) for number in range(2)])
        with pytest.raises(OverQuota):
            town.send(gateway, 3)
        gateway.follow(now, replace(town.config, limits=Limits(max_queue=0)))
        with pytest.raises(Overloaded, match="this gateway is full"):
            town.send(gateway, 1)
        gateway.follow(now, town.config)
        await replies([town.send(gateway, 1)])
        await town.stop()

    run_virtual(body())


async def whole(town: Town) -> Town:
    await town.add_gateway()
    await town.add_batcher()
    await town.add_worker()
    await town.settle_down()
    return town
