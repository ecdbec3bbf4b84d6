"""Models whose identical requests share an answer: which versions run, and what sharing has saved."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from penstock.gauges import CacheCounts
from penstock.runtime.desk import Desk


def follow_versions(desks: Iterable[Desk], rows: Sequence[Mapping[str, Any]]) -> None:
    """A version that no worker runs any more is forgotten: a gateway that only repeats answers would not notice."""
    for desk in desks:
        sharing = desk.sharing
        if sharing is not None:
            run = {row.get("version") for row in rows if row.get("model") == desk.model} - {None, ""}
            if run and sharing.version not in run:
                sharing.learn(max(map(str, run)))


def counts_of(desks: Iterable[Desk]) -> dict[str, CacheCounts]:
    return {
        desk.model: CacheCounts(each.hits, each.misses, each.bypassed, each.stored, each.collapsed)
        for desk in desks
        if (each := desk.sharing) is not None
    }
