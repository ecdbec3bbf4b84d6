"""Makes one answer of the replies to a call with several asks. The data plane makes a `Joined` for each such call,
and the gateway calls it back with the replies."""

from collections.abc import Callable, Sequence

from penstock.doors.door import AskingDoor
from penstock.edge.caller import Caller
from penstock.types import Reply


class Joined:
    """Implements `ports.waiting.CallAsker`. It is called once: with all replies, or with the first failure
    alone."""

    __slots__ = ("_caller", "_clock", "_door")

    def __init__(self, caller: Caller, door: AskingDoor, clock: Callable[[], float]) -> None:
        self._caller = caller
        self._door = door
        self._clock = clock

    def answered(self, replies: Sequence[Reply]) -> None:
        failure, request = replies[0].failure, replies[0].request
        if failure is not None:
            answer = self._door.failure(failure, request.request_id)
            answer.code = failure.code
        else:
            answer = self._door.answer(replies, self._clock())
        self._caller.respond(answer, request.tenant)
