"""What is told to a person at a terminal while a server runs."""

import sys
from collections.abc import Callable
from datetime import datetime


def figures_line(quiet: bool) -> Callable[[str], None] | None:
    """Where a line of figures goes: nowhere, unless somebody looks at it.

    Each is a line of its own, between those of the log. What a function prints goes straight to the terminal, and a
    line that is rewritten in place would be mixed up with it.
    """
    if quiet or not sys.stderr.isatty():
        return None

    def say(text: str) -> None:
        print(f"\x1b[2m{datetime.now():%H:%M:%S} figures {text}\x1b[0m", file=sys.stderr, flush=True)

    return say
