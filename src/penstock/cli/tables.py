"""The tables that commands print: of workers, dead letters, API keys and requests."""

from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(
    columns: Sequence[str], rows: Iterable[Sequence[str | Text]], *, otherwise: str, wraps: str = ""
) -> None:
    """`otherwise` is printed where there are no rows. Only the column `wraps` may take several lines."""
    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=column != wraps)
    for row in rows:
        table.add_row(*row)
    # A table that is piped somewhere is not cut to the width of a terminal that is not there.
    console = Console() if Console().is_terminal else Console(width=240)
    console.print(table if table.rows else otherwise)
