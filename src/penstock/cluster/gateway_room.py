"""Whether a gateway over a bus has room for one more request of a tenant. Its admission (`gateway_admission.py`)
asks for every request.

    fewer wait than nine tenths of the most                  there is room
    as many wait as may                                      there is none
    the last tenth                                           only for tenants with less than an even share

A batcher has the same rule for its queue (`core.refusal`). Counting goes through all that wait. So it is done only
while the last tenth is in use, a few times a second, and requests that were let in since are added.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from penstock.core.refusal import ROOM, is_beyond_share

COUNTED_FOR = 0.25  # seconds for which a count of all that wait is good enough


class GatewayRoom:
    def __init__(self, most: int, tenants: Callable[[], Iterable[str]]) -> None:
        """`most`: how many requests may wait. `tenants`: returns the tenant of each request that waits."""
        self._tenants = tenants
        self.bound(most)
        # By tenant: how many waited when they were counted, and how many were let in since.
        self._own = Counter[str]()
        self._counted = -inf  # when those who wait were last counted

    def bound(self, most: int) -> None:
        """Let so many wait from now on."""
        self.most = most
        self._open = most - int(ROOM * most)  # while fewer wait, nobody's share matters

    def is_full(self, waiting: int, tenant: str, now: float, more: int = 0) -> bool:
        """Whether there is no room for one more request of a tenant. `waiting`: how many wait now. `more`: how many
        further requests of the tenant are to count as waiting."""
        waiting += more
        if waiting < self._open:
            return False
        if waiting >= self.most:
            return True
        self._count(now)
        return is_beyond_share(self._own[tenant] + more, len(self._own), self.most)

    def let_in(self, waiting: int, tenant: str) -> None:
        """Note that a request was let in while `waiting` others waited."""
        if waiting >= self._open:
            self._own[tenant] += 1

    def _count(self, now: float) -> None:
        if now - self._counted >= COUNTED_FOR:
            self._counted = now
            self._own = Counter(self._tenants())
