"""How long the first batch of a backend may take: it may have to load or to compile. All slots of a model share one
`FirstBatches`: each tells it how long its first batch took, and asks it for the limit of the next."""

PATIENT = 5.0  # the limit of a first batch, as a multiple of the longest that was seen


class FirstBatches:
    """What the slots of a model have seen of its first batches."""

    def __init__(self) -> None:
        self.longest: float | None = None  # seconds of the longest; None while there was none

    def took(self, seconds: float) -> None:
        self.longest = max(seconds, self.longest or 0.0)

    def limit(self, usual: float, at_most: float) -> float:
        """How long the next first batch may run: at least `usual`, which any batch may. If it is known how long
        first batches take, one that takes several times as long counts as hung."""
        return max(usual, at_most if self.longest is None else min(at_most, PATIENT * self.longest))
