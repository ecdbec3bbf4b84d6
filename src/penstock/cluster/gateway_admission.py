"""Which requests a gateway over a bus lets in, by what it can know itself. It is asked through the desk of the
model, for every request that is to be executed.

A gateway knows whether the store is up and has room, whether a batcher is there, and who waits for an answer here
(`gateway_room`). The batcher knows the queue: it refuses the requests that cannot make their deadlines
(`core.admission`).
"""

from collections import Counter
from collections.abc import Callable
from math import inf

from penstock.cluster.gateway_room import GatewayRoom
from penstock.cluster.no_worker import NoWorker
from penstock.cluster.staying import staying
from penstock.errors import Overloaded, Refused, StoreDown, Unacceptable
from penstock.ports.registry import Registry
from penstock.ports.shards import Publisher
from penstock.types import Request

# Seconds without any batcher in which requests are still accepted: a batcher that is started again within this time
# finds them, and they still have time.
BATCHER_BACK = 3.0
# The part of `redis.memory_limit` beyond which no more answers are kept for other gateways.
CACHE_MEMORY = 0.75


class GatewayAdmission:
    def __init__(
        self,
        registry: Registry,
        publisher: Publisher,
        waiting: Callable[[], int],
        room: GatewayRoom,
        *,
        memory_limit: float,
    ) -> None:
        """`waiting`: says how many requests wait for their answers at this gateway."""
        self._registry, self._publisher, self._waiting = registry, publisher, waiting
        self._room, self._memory_limit = room, memory_limit
        self._no_worker = NoWorker(registry)
        # Requests that were refused although a worker more might have helped, by model, since the start.
        self.turned_away: Counter[str] = Counter()
        self._has_batcher = False
        self._last_batcher_left = -inf  # when it was first seen that no batcher was there any more

    def look(self, now: float) -> None:
        """Look at whether a batcher takes requests, and which models are without a worker for a while."""
        self._no_worker.look(now)
        had, self._has_batcher = self._has_batcher, bool(staying(self._registry, "batchers"))
        if had and not self._has_batcher:
            self._last_batcher_left = now

    def refusal(self, model: str, max_cost: float | None, request: Request, now: float) -> Refused | None:
        """Why a request is not let in, or None if it is. `max_cost`: what one request may cost; None: anything."""
        if max_cost is not None and request.cost > max_cost:
            return Unacceptable(
                f"this input costs {request.cost:g}, and max_cost of the model is {max_cost:g}: make it shorter"
            )
        if self._publisher.down:
            return StoreDown("Redis does not answer", retry_after=1.0)
        if self._registry.memory_ratio >= self._memory_limit:
            return StoreDown(
                f"Redis is nearly full: redis.memory_limit is {self._memory_limit:g} of its maxmemory",
                retry_after=self.backlog_seconds(model),
            )
        waiting = self._waiting()
        if self._room.is_full(waiting, request.tenant, now):
            return self._full(model)
        if self.no_batcher(now):
            return Overloaded("no batcher is running", retry_after=1.0)
        if model in self._no_worker.models:
            self.turned_away[model] += 1
            return self._no_worker.refusal(model, now)
        self._room.let_in(waiting, request.tenant)
        return None

    def refusal_of_more(self, model: str, request: Request, number: int, now: float) -> Refused | None:
        """Why `number` more requests like this one, which was let in, cannot all be let in. None: that is not
        sure."""
        full = self._room.is_full(self._waiting(), request.tenant, now, number - 1)
        return self._full(model) if full else None

    def _full(self, model: str) -> Overloaded:
        self.turned_away[model] += 1
        message = f"this gateway is full: limits.max_queue is {self._room.most}"
        return Overloaded(message, retry_after=self.backlog_seconds(model))

    def no_batcher(self, now: float) -> bool:
        """Whether there has been no batcher for longer than a restart takes."""
        return not self._has_batcher and now - self._last_batcher_left > BATCHER_BACK

    def backlog_seconds(self, model: str) -> float:
        """How long the longest of the batchers' queues will take, by their heartbeats."""
        said = [
            batcher.models[model].backlog_seconds
            for batcher in self._registry.members["batchers"].values()
            if model in batcher.models
        ]
        return max([0.1, *said])

    def has_room_for_answers(self) -> bool:
        """Whether answers may still be kept in the shared store. This ends long before the store is too full for
        requests."""
        return self._registry.memory_ratio < CACHE_MEMORY * self._memory_limit
