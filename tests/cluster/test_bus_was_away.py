"""What a worker does when the bus is back: nobody has heard which of its slots are free."""

import pytest
from town import SECONDS, Town, replies, right_answer

from penstock.cluster import dock
from penstock.testing import run_virtual
from penstock.types import WorkerId


def test_free_slots_say_so_again_as_soon_as_the_bus_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dock, "AGAIN", 3600.0)  # they would say so by themselves, later

    async def body() -> None:
        town = Town()
        await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        [gateway], [worker] = town.gateways, town.workers
        line = town.bus.credits()
        for slot in worker._slots.slots:
            await line.withdraw("double", WorkerId(slot))  # its word of being free was lost
        for reachable in (False, True):
            worker.registry.reachable = reachable  # type: ignore[misc]  # the port lets it be read alone
            worker.registry.on_changed()
        began = town.clock()
        [answer] = await replies([town.send(gateway, 7)])
        assert answer.output == right_answer(7)
        assert town.clock() - began < 10 * SECONDS
        await town.stop()

    run_virtual(body())
