"""Whose requests were let in last, so that a tenant that has had less than its share is known.

In a tier that is held to a part of the capacity, hardly anybody waits. So the queue does not show whose turn it is,
but the last requests that were let in do. `tier_gate`, which holds lower tiers to their part, keeps one `Recent`
for each tier.
"""

from collections import deque

REMEMBERED = 256  # requests


class Recent:
    __slots__ = ("_counts", "_tenants")

    def __init__(self) -> None:
        self._tenants: deque[str] = deque()  # the tenant of each remembered request, the latest last
        self._counts: dict[str, int] = {}  # how many remembered requests each tenant has

    def add(self, tenant: str) -> None:
        tenants, counts = self._tenants, self._counts
        tenants.append(tenant)
        counts[tenant] = counts.get(tenant, 0) + 1
        if len(tenants) > REMEMBERED:
            oldest = tenants.popleft()
            counts[oldest] -= 1
            if not counts[oldest]:
                del counts[oldest]

    def had_less(self, tenant: str) -> bool:
        """Whether this tenant has had less than an even share of the requests that are remembered."""
        counts = self._counts
        # An even share: all that are remembered, by the number of different tenants with this one.
        return counts.get(tenant, 0) * (len(counts) + (tenant not in counts)) < len(self._tenants)
