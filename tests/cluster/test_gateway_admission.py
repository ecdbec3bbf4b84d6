"""Which requests a gateway of a cluster lets in."""

from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast

import pytest
from runtime_kit import ask
from town import Town

from penstock.cluster.gateway_admission import GatewayAdmission
from penstock.cluster.gateway_room import COUNTED_FOR, GatewayRoom
from penstock.errors import Overloaded
from penstock.testing import Recorder, run_virtual
from penstock.types import Ask


@pytest.mark.parametrize(("waiting", "more", "refused"), [(1, 8, False), (1, 9, True), (10, 1, True)])
def test_many_are_refused_at_once_if_the_gateway_has_no_room_for_them_all(
    waiting: int, more: int, refused: bool
) -> None:
    registry, publisher = SimpleNamespace(members={"batchers": {}}), SimpleNamespace(down=False)
    room = GatewayRoom(10, lambda: ["somebody else"] * waiting)
    admission = GatewayAdmission(
        cast(Any, registry), cast(Any, publisher), lambda: waiting, room, memory_limit=0.9
    )
    said = admission.refusal_of_more("model", ask(), more, 0.0)
    assert isinstance(said, Overloaded) == refused


def test_the_last_tenth_is_for_those_with_less_than_an_even_share() -> None:
    waiting = ["loud"] * 85 + ["quiet"] * 4
    room = GatewayRoom(100, lambda: waiting)

    def full(tenant: str, now: float = 0.0, more: int = 0) -> bool:
        return room.is_full(len(waiting), tenant, now, more)

    assert not full("loud")  # below the last tenth nobody's share matters
    assert full("loud", more=1)
    assert not full("quiet", more=10)
    assert full("quiet", more=11)  # none of 100 is left
    waiting += ["quiet"]
    assert full("loud")
    assert not full("quiet")
    assert not full("new")


def test_what_was_let_in_since_they_were_counted_counts_too() -> None:
    """A third of ten, where two wait and one may come, is less than four."""
    waiting = ["loud"] * 6 + ["quiet"] * 3
    room = GatewayRoom(10, lambda: waiting)
    assert not room.is_full(9, "quiet", 0.0)
    room.let_in(9, "quiet")
    assert room.is_full(9, "quiet", 0.0)
    assert not room.is_full(9, "quiet", COUNTED_FOR)  # counted anew: it was no more than three


def test_over_a_bus_one_tenant_cannot_take_the_last_room_of_a_gateway() -> None:
    """100 and not 20,000 may wait, so that the test is short."""

    async def body() -> None:
        town = Town(max_queue=100)
        await town.add_batcher()
        gateway = await town.add_gateway()
        await town.add_worker()
        await town.settle_down()

        def let_in(tenant: str, number: int) -> int:
            before = gateway.unfinished
            for _ in range(number):
                with suppress(Overloaded):
                    gateway.gateway.submit(Ask(b'"1"', "double", client_id=tenant), Recorder())
            return gateway.unfinished - before

        assert let_in("loud", 200) == 90
        assert let_in("quiet", 8) == 8
        with pytest.raises(Overloaded, match=r"limits\.max_queue is 100"):
            gateway.gateway.submit(Ask(b'"1"', "double", client_id="loud"), Recorder())
        assert let_in("another", 10) == 2
        await town.stop()

    run_virtual(body())
