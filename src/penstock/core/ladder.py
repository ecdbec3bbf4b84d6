"""The sizes of batch that a worker is warmed up with, the smallest first.

Where sizes are given it is each of them. Where any size may come it is the powers of two and the largest: to run
each would take 20 s on a GPU where a new one costs 80 ms and 256 are allowed. The powers are where most frameworks
have their steps, and the learned curve is drawn between them.
"""

from collections.abc import Sequence

from penstock.core.sizes import powers_to


def ladder(allowed: Sequence[int], max_batch: int) -> list[int]:
    """`allowed`: the sizes that batches have; none if they may have any."""
    return sorted(allowed or powers_to(max_batch).allowed)
