"""The line of figures that a person at a terminal sees while `penstock serve` or `penstock up` runs.

The roles are handed what `figures_line` returns.
"""

import sys
from collections.abc import Callable
from datetime import datetime


def figures_line(quiet: bool) -> Callable[[str], None] | None:
    """What writes a line of figures; None unless stderr is a terminal.

    Each goes on a line of its own, between those of the log. A line that is rewritten in place would be mixed up
    with what a function prints, which goes straight to the terminal.
    """
    if quiet or not sys.stderr.isatty():
        return None

    def say(text: str) -> None:
        print(f"\x1b[2m{datetime.now():%H:%M:%S} figures {text}\x1b[0m", file=sys.stderr, flush=True)

    return say
