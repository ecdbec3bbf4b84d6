"""Prints the tables of `penstock workers`, `dlq`, `keys` and `requests`. Where the output is no terminal, they are
not cut to the width of one."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, otherwise: str, wraps: str = ""
) -> None:
    """Print a table. `otherwise`: what to print if there are no rows. Only the column `wraps` may take several
    lines."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=column != wraps)
    for row in rows:
        table.add_row(*row)
    console = Console() if Console().is_terminal else Console(width=240)
    console.print(table if table.rows else otherwise)
