"""Whether a batch may have a size that its worker has never run, where each new size is dear once and any is
allowed.

A new size makes all requests in the batch wait for what its first run costs. The other way is to send as many as
fill the largest size that the worker has run, and the rest after them, in batches of that size:

- If all n go together, each waits S(n) − S(run) longer, plus the cost of the new size. S(n) is how long a batch of
  n takes, and `run` the largest size below n that the worker has run.
- If the rest is kept, it waits for the batches before its own. The way with the smaller sum of waits is taken.
- If the rest would then be too late, and nobody is late in the new size, all go.

Nobody can tell whether a first run pays off later, but it usually does: a size that came once comes again. So one
part in `RARE` of a worker's time goes into new sizes although the sum of waits is larger, until it has run them
all. `sealing` asks this before it fills a batch, where `batch_sizes` is `any`. Allowed sizes (`core.sizes`) are run
before anybody waits.
"""

from collections.abc import Callable
from math import ceil

from penstock.core.fleet import Worker
from penstock.types import Seconds

RARE = 200  # one part in so many of a worker's time may go into new sizes that do not pay at once


def to_send(
    worker: Worker,
    waiting: int,
    seconds: Callable[[int], Seconds],
    cost: Seconds,
    patience: Seconds,
    now: Seconds,
) -> int:
    """Returns how many of the waiting requests go to this worker now: all, or as many as fill a size that it has
    run. `cost`: what the first run of a size costs. `patience`: by how many seconds the most urgent request may be
    answered later than in a batch of a size that was run, if that went now; infinite if another worker is idle,
    which could take the rest."""
    if waiting in worker.met:
        return waiting
    run = max((size for size in worker.met if size < waiting), default=0)
    if not run or now >= worker.new_size_from or not _is_dear(run, waiting, seconds, cost, patience):
        worker.new_size_from = now + RARE * cost
        return waiting
    return run


def _is_dear(
    run: int, waiting: int, seconds: Callable[[int], Seconds], cost: Seconds, patience: Seconds
) -> bool:
    """Whether the sum of waits is larger if all go together in a new size. Never if only so all are in time."""
    rest, shorter = waiting - run, seconds(run)
    batches = ceil(rest / run)
    longer = seconds(waiting) - shorter + cost
    together = longer <= patience < shorter * batches
    return not together and waiting * longer > rest * shorter * (batches + 1) / 2
