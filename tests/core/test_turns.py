"""Tenants take turns between lanes as they do within one."""

import pytest
from core_kit import ask, batcher_with, finish, offer, outputs

from penstock.core import turns
from penstock.core.batcher import Batcher
from penstock.core.rules import BatchingRules

GREEDY = BatchingRules(policy="greedy", max_batch=4)


def served(batcher: Batcher, batches: int) -> list[bytes]:
    """The parameters of so many batches, one after the other on one worker."""
    found = []
    for number in range(batches):
        now = number / 100
        ((name, batch),) = batcher.step(now).dispatches
        found.append(batch.parameters)
        finish(batcher, name, outputs(batch), now + 0.01)
    return found


def test_a_tenant_with_many_hurried_lanes_leaves_every_other_batch_to_another_tenant() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *(ask(tenant="many", parameters=b"%d" % n, deadline=1.0 + n) for n in range(8)))
    offer(batcher, *(ask(tenant="one", deadline=60.0) for _ in range(8)))
    assert served(batcher, 4) == [b"0", b"", b"1", b""]


def test_a_tenant_cannot_hold_a_lane_back_by_waiting_in_it_first() -> None:
    batcher = batcher_with(1, GREEDY)
    offer(batcher, *(ask(tenant="many", parameters=b"%d" % n, deadline=1.0 + n) for n in range(4)))
    offer(batcher, *(ask(tenant="many", deadline=90.0) for _ in range(4)))
    offer(batcher, ask(tenant="one", deadline=60.0))
    assert served(batcher, 2) == [b"0", b""]


def test_when_too_many_tenants_were_served_to_be_remembered_urgency_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batcher = batcher_with(1, GREEDY)
    monkeypatch.setattr(turns, "MOST", 0)
    offer(batcher, *(ask(tenant="many", parameters=b"%d" % n, deadline=1.0 + n) for n in range(8)))
    offer(batcher, ask(tenant="one", deadline=60.0), ask(tenant="two", parameters=b"two", deadline=90.0))
    assert served(batcher, 3) == [b"0", b"", b"1"]


def test_the_last_lanes_are_for_tenants_that_have_few() -> None:
    batcher = batcher_with(0, BatchingRules(max_lanes=20))
    offer(batcher, *(ask(tenant="many", parameters=b"%d" % n) for n in range(18)))
    assert not batcher.has_room_for(ask(tenant="many", parameters=b"more"))
    assert batcher.has_room_for(ask(tenant="many", parameters=b"7"))
    assert batcher.has_room_for(ask(tenant="one", parameters=b"more"))
