"""Requests sorted by a time limit: whoever is taken waits no longer, and the dead are passed over."""

import pytest
from core_kit import ask

from penstock.core.ordered import Ordered
from penstock.core.queued import Queued
from penstock.core.room import Room


def waiting(*deadlines: float) -> tuple[Ordered, list[Queued]]:
    """A queue into which requests with these deadlines came, in this order; and the requests."""
    queue, requests = Ordered(), [ask(deadline=each) for each in deadlines]
    for number, each in enumerate(requests):
        each.waiting = True
        queue.push((each.deadline, number, each))
    return queue, requests


@pytest.mark.parametrize("room", [None, Room(100.0)])
def test_the_earliest_are_taken_and_the_dead_are_passed_over(room: Room | None) -> None:
    queue, (first, dead, third, last) = waiting(1.0, 2.0, 3.0, 4.0)
    dead.waiting = False
    assert queue.take(2, room) == [first, third]
    assert [each.waiting for each in (first, third, last)] == [False, False, True]
    assert queue.take(5, room) == [last]
    assert queue.take(5, room) == []
    assert queue.first() is None


@pytest.mark.parametrize("room", [None, Room(100.0)])
def test_whoever_came_out_of_order_has_its_turn_by_its_time(room: Room | None) -> None:
    queue, (late, early, last) = waiting(2.0, 1.0, 3.0)
    assert queue.take(2, room) == [early, late]
    assert queue.take(2, room) == [last]
    assert queue.take(2, room) == []


def test_none_is_taken_beyond_the_room() -> None:
    queue, (first, second) = waiting(1.0, 2.0)
    assert queue.take(2, Room(1.0)) == [first]
    assert second.waiting
    assert queue.take(2, None) == [second]
