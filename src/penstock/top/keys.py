"""What the keys of `penstock top` do: from what is looked at now to what is looked at next. `watch.py` asks."""

from dataclasses import dataclass, replace

from penstock.top.lists import KINDS, Kind

HELP = (
    "m t w p      models, tiers, workers, processes",
    "Tab          the next of these",
    "up down      the row before, the row after; also k and j, PageUp and PageDown",
    "Enter        look at this one alone; Enter, Esc or Backspace: back to all",
    "s  r         sort by the next column; the other way round",
    "space        pause, and go on",
    "? h          these keys",
    "q  Ctrl-C    leave",
)
PAGE = 10  # rows that PageUp and PageDown move by
_LISTS: dict[str, Kind] = {kind[0]: kind for kind in KINDS}
_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -PAGE, "pagedown": PAGE}


@dataclass(frozen=True, slots=True)
class Looking:
    """What is looked at, and how."""

    kind: Kind = "models"
    sort: int = 0  # the number of the column that the rows are sorted by
    reverse: bool = False  # whether they are sorted the other way round
    name: str = ""  # the row that is marked; empty: the first
    alone: bool = False  # only this row, with all that is known of it
    help: bool = False
    paused: bool = False


def pressed(looking: Looking, key: str, names: list[str], columns: int) -> Looking | None:
    """Returns what is looked at after this key; None: leave. `names`: the rows, in the order in which they are
    shown. `columns`: how many the list has."""
    if key in ("q", "ctrl-c"):
        return None
    if looking.help:
        return replace(looking, help=False)
    if key in ("?", "h"):
        return replace(looking, help=True)
    if key in _LISTS:
        return Looking(_LISTS[key], paused=looking.paused)
    if key == "tab":
        return Looking(KINDS[(KINDS.index(looking.kind) + 1) % len(KINDS)], paused=looking.paused)
    if key == "space":
        return replace(looking, paused=not looking.paused)
    if key == "s":
        return replace(looking, sort=(looking.sort + 1) % max(1, columns))
    if key == "r":
        return replace(looking, reverse=not looking.reverse)
    if key in ("enter", "escape", "backspace"):
        return replace(looking, alone=key == "enter" and not looking.alone and bool(names))
    if key in _STEPS and names:
        at = names.index(looking.name) if looking.name in names else 0
        return replace(looking, name=names[min(max(0, at + _STEPS[key]), len(names) - 1)])
    return looking
