"""The line of figures that a person at a terminal sees while `penstock serve` or `penstock up` runs.

`cli/serve.py` passes the result of `figures_line` to `roles/serve.py`; `cli/up.py` uses it itself.
"""

import sys
from collections.abc import Callable
from datetime import datetime


def figures_line(quiet: bool) -> Callable[[str], None] | None:
    """Returns a function that writes one line of figures, or None if stderr is not a terminal or `quiet` is set.

    Every text becomes a new line among those of the log. A line that is rewritten in place would be mixed up with
    what a function prints, which goes straight to the terminal.
    """
    if quiet or not sys.stderr.isatty():
        return None

    def say(text: str) -> None:
        print(f"\x1b[2m{datetime.now():%H:%M:%S} figures {text}\x1b[0m", file=sys.stderr, flush=True)

    return say
