"""Whether a gateway over Redis has room for one more request of a tenant. Used by `gateway_admission`.

    fewer wait than nine tenths of the most                  there is room
    as many wait as may                                      there is none
    the last tenth                                           only for tenants with less than an even share

It is the rule that a batcher has for its queue (`core.refusal`). Who waits is counted only while the last tenth is
touched, and then a few times a second, since all that wait are gone through. What was let in since is added.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from math import inf

from penstock.core.refusal import ROOM, is_beyond_share

COUNTED_FOR = 0.25  # seconds


class Room:
    def __init__(self, most: int, tenants: Callable[[], Iterable[str]]) -> None:
        """`tenants`: of each request that waits, whose it is."""
        self.most = most
        self._tenants = tenants
        self._open = most - int(ROOM * most)  # while fewer wait, nobody's share matters
        self._own = Counter[str]()
        self._counted = -inf

    def is_full(self, waiting: int, tenant: str, now: float, more: int = 0) -> bool:
        """Whether there is no room for one more of a tenant, once `more` of its requests wait besides those that
        do now."""
        waiting += more
        if waiting < self._open:
            return False
        if waiting >= self.most:
            return True
        self._count(now)
        return is_beyond_share(self._own[tenant] + more, len(self._own), self.most)

    def let_in(self, waiting: int, tenant: str) -> None:
        """Note that a request was let in while so many waited."""
        if waiting >= self._open:
            self._own[tenant] += 1

    def _count(self, now: float) -> None:
        if now - self._counted >= COUNTED_FOR:
            self._counted = now
            self._own = Counter(self._tenants())
