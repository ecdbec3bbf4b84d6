"""How much of what the workers of a model run is padding, of late. `aftermath` tells of each batch."""

MEMORY = 1000.0  # batches that are remembered, those before them less and less


class PaddedShare:
    __slots__ = ("_padding", "_rows")

    def __init__(self) -> None:
        self._rows = self._padding = 0.0

    def add(self, rows: int, padding: int) -> None:
        """A batch of so many inputs was run, and so many of these were padding."""
        self._rows += rows - self._rows / MEMORY
        self._padding += padding - self._padding / MEMORY

    @property
    def share(self) -> float:
        return self._padding / self._rows if self._rows else 0.0
