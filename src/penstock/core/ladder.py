"""The sizes of batch that a worker is warmed up with, the smallest first. The ladder is made once for each model,
with its warm-up (`from_config/warm_up.py`). `penstock tune` assumes the same sizes to be warm
(`advice/setting.py`).

If the model allows certain sizes only, the ladder is all of them. If any size may come, it is the powers of two and
the largest size: to run each of 256 sizes would take 20 s on a GPU where a new one costs 80 ms. Most frameworks
have their steps at the powers of two, and the learned curve is drawn between them.
"""

from collections.abc import Sequence

from penstock.core.sizes import powers_to


def ladder(allowed: Sequence[int], max_batch: int) -> list[int]:
    """Returns the ladder. `allowed`: the sizes that batches may have; empty if any size is allowed."""
    return sorted(allowed or powers_to(max_batch).allowed)
