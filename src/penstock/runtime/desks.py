"""All desks of one gateway together: which versions of the models run, what shared answers have saved, and what the
metrics page shows of each. The gateway's process asks, whether it is alone (`runtime/embedded_server.py`) or over a
bus (`cluster/gateway.py`, `cluster/announced_desks.py`)."""

from collections.abc import Iterable, Mapping, Sequence

from penstock.gauges import CacheCounts, DeskGauges
from penstock.runtime.condition import WorkerRow
from penstock.runtime.desk import Desk


def follow_versions(desks: Iterable[Desk], rows: Sequence[WorkerRow]) -> None:
    """Make the desks forget versions that no worker runs any more. A gateway that only repeats answers would not
    hear of a new version otherwise."""
    for desk in desks:
        sharing = desk.sharing
        if sharing is not None:
            run = {row.version for row in rows if row.model == desk.model} - {""}
            if run and sharing.version not in run:
                sharing.learn(max(run))


def counts_of(desks: Iterable[Desk]) -> dict[str, CacheCounts]:
    return {
        desk.model: CacheCounts(each.hits, each.misses, each.bypassed, each.stored, each.collapsed)
        for desk in desks
        if (each := desk.sharing) is not None
    }


def desk_gauges(desks: Mapping[str, Desk]) -> dict[str, DeskGauges]:
    """Returns what clients of each model can expect, for the metrics. Where tiers differ, the strictest counts."""
    return {
        name: DeskGauges(
            desk.objective or min(request for _, request in desk.time_limits),
            min(queue for queue, _ in desk.time_limits),
            desk.ready(),
        )
        for name, desk in desks.items()
    }
