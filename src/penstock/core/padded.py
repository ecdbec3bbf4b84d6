"""Which part of the inputs that a model's workers ran lately was padding. `aftermath` reports each batch, and
`/internal/health` shows the share."""

MEMORY = 1000.0  # batches over which the share is averaged; older ones count less and less


class PaddedShare:
    __slots__ = ("_padding", "_rows")

    def __init__(self) -> None:
        # How many inputs were run, and how many of them were padding. Both fade with each batch.
        self._rows = self._padding = 0.0

    def add(self, rows: int, padding: int) -> None:
        """Note that a batch of so many inputs (`rows`) was run, padding included."""
        self._rows += rows - self._rows / MEMORY
        self._padding += padding - self._padding / MEMORY

    @property
    def share(self) -> float:
        return self._padding / self._rows if self._rows else 0.0
