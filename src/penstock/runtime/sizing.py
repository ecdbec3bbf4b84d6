"""Finds the cost of inputs by a user's function: requests pass through a batcher of their own before the real one.

So the function runs in its own process and is given lists of inputs. If it fails, hangs or crashes on an input,
only that input's request fails, by the same splitting and retrying as with any backend. Where `cost` names a
function, `roles/model.py` gives the desk of the model this broker instead of the plain one.
"""

from collections.abc import Callable, Sequence

from penstock.core.queued import Queued
from penstock.errors import Unacceptable
from penstock.ports import Broker
from penstock.types import Failure, Outcome, Reply

Deliver = Callable[[Sequence[Reply]], None]


class SizingBroker:
    """A `ports.Broker` that sends requests to the sizing batcher first. `sized` takes the replies of that batcher,
    and sends the requests on."""

    def __init__(self, onward: Broker[Queued], deliver: Deliver, max_cost: float) -> None:
        self._onward = onward
        self._deliver = deliver
        self._max_cost = max_cost
        self._being_sized: dict[str, Queued] = {}  # requests that are being sized, by key
        # How a request is offered to the sizing batcher, and how it is taken back.
        self._size: Callable[[Queued], None] | None = None
        self._unsize: Callable[[Queued], None] | None = None

    def subscribe(self, on_request: Callable[[Queued], None], on_withdraw: Callable[[Queued], None]) -> None:
        self._size, self._unsize = on_request, on_withdraw

    def publish(self, request: Queued) -> None:
        assert self._size is not None, "subscribe first"
        self._being_sized[request.key] = request
        self._size(request)

    def withdraw(self, request: Queued) -> None:
        assert self._unsize is not None, "subscribe first"
        if self._being_sized.pop(request.key, None) is not None:
            self._unsize(request)
        else:
            self._onward.withdraw(request)

    def sized(self, replies: Sequence[Reply]) -> None:
        """Take in the replies of the sizing batcher: send on the requests that have a cost, and answer the
        others."""
        for reply in replies:
            request = self._being_sized.pop(reply.request.key, None)
            if request is None:
                continue  # its asker left meanwhile
            failure = self._cost(reply)
            if failure is None:
                # What happened while it was sized is nothing to the model's own batcher: neither the attempts, nor
                # that its tenant was set apart there.
                request.executions, request.apart = 0, False
                self._onward.publish(request)
            else:
                outcome = reply.outcome if reply.failure else Outcome.FAILED
                self._deliver([Reply(request, outcome, failure=failure)])

    def _cost(self, reply: Reply) -> Failure | None:
        """Set the request's cost. If there is none, or it is out of bounds, returns the failure instead."""
        if reply.failure is not None:
            return reply.failure
        try:
            cost = float(reply.output)
        except ValueError:
            cost = float("nan")
        if not 0.0 <= cost <= self._max_cost:
            return Failure(
                Unacceptable.code,
                f"this input costs {cost:g}, and may cost 0 to {self._max_cost:g}, which is max_cost of the model:"
                " make it shorter",
            )
        reply.request.cost = cost
        return None
