"""Makes one answer of the replies to a call with several asks. The data plane makes a `Joined` for each such call,
and the gateway calls it back with the replies."""

from collections.abc import Callable, Sequence

from penstock.edge.answer import Answer
from penstock.edge.caller import Caller
from penstock.types import Failure, Reply


class Joined:
    """Implements `ports.waiting.CallAsker`. It is called once: with all replies, or with the first failure
    alone."""

    __slots__ = ("_answer", "_caller", "_clock", "_failure")

    def __init__(
        self,
        caller: Caller,
        answer: Callable[[Sequence[Reply], float], Answer],
        failure: Callable[[Failure, str], Answer],
        clock: Callable[[], float],
    ) -> None:
        """`answer`, `failure`: what the door of the call makes of replies, and of a failure."""
        self._caller = caller
        self._answer = answer
        self._failure = failure
        self._clock = clock

    def answered(self, replies: Sequence[Reply]) -> None:
        failure, request = replies[0].failure, replies[0].request
        if failure is not None:
            answer = self._failure(failure, request.request_id)
            answer.code = failure.code
        else:
            answer = self._answer(replies, self._clock())
        self._caller.respond(answer, request.tenant)
