"""The sizes of batch that a worker is warmed up with, the smallest first.

Where sizes are given it is each of them. Where any size may come it is the powers of two and the largest: to run
each would take 20 s on a GPU where a new one costs 80 ms and 256 are allowed. The powers are where most frameworks
have their steps, and the learned curve is drawn between them.
"""

from collections.abc import Sequence


def ladder(allowed: Sequence[int] | None, max_batch: int) -> list[int]:
    """`allowed`: the sizes that batches have; None if they may have any."""
    if allowed is not None:
        return sorted({size for size in allowed if size <= max_batch})
    powers = (1 << power for power in range(max_batch.bit_length()))
    return sorted({*powers, max_batch})
