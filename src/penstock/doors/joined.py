"""The answer to a call of several asks."""

from collections.abc import Callable, Sequence

from penstock.doors.door import AskingDoor
from penstock.edge.caller import Caller
from penstock.types import Reply


class Joined:
    """The asker of a call of several asks: makes one answer of all replies, or of the first failure."""

    __slots__ = ("_caller", "_clock", "_door")

    def __init__(self, caller: Caller, door: AskingDoor, clock: Callable[[], float]) -> None:
        self._caller = caller
        self._door = door
        self._clock = clock

    def answered(self, replies: Sequence[Reply]) -> None:
        failure, request = replies[0].failure, replies[0].request
        if failure is not None:
            answer = self._door.failure(failure, request.request_id)
        else:
            answer = self._door.answer(replies, self._clock())
        self._caller.respond(answer, request.tenant)
