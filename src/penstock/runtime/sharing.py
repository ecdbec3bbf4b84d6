"""For all desks whose models share answers (`collapse.sharing`): forgets versions that no longer run, and counts
what sharing has saved. The life of a gateway calls it as versions change and when the metrics are shown, in one
process (`embedded_server`) and over a bus (`cluster/gateway.py`)."""

from collections.abc import Iterable, Sequence

from penstock.gauges import CacheCounts
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
