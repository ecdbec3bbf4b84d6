"""How the sentences of an explanation say lengths of time and lists. `story` and `more_time` use it."""

from collections.abc import Sequence

REASONS = {  # why a batch was sent, as the end of a sentence
    "full": "because more requests in one batch did not fit, or did not pay by what was learned",
    "due": "because its turn had come: the pace, or the longest wait",
    "idle": "because workers were free and waiting would have bought nothing",
    "deadline": "because a member would have missed its deadline otherwise",
    "cost": "because it held as much cost as a batch may",
    "drain": "because the server was about to stop",
}


def length(ms: float) -> str:
    """Says a length of time: 0.4 ms, 112 ms, 2.3 s."""
    if ms >= 1000.0:
        return f"{ms / 1000.0:.3g} s" if ms < 100_000.0 else f"{ms / 1000.0:.0f} s"
    return f"{ms:.0f} ms" if ms >= 100.0 else f"{ms:.1f} ms"


def listed(names: Sequence[str], number: int) -> str:
    """Lists names of which there are `number`, though not all may be known."""
    others = number - len(names)
    if others > 0:
        rest = f"{others} more" if names else f"{others} other{'s' if others > 1 else ''}"
        names = [*names, rest]
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
