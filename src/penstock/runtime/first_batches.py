"""How long the first batches of a model take. A backend's first batch may have to load or to compile."""

PATIENT = 5.0  # the limit of a first batch, as a multiple of the longest that was seen


class FirstBatches:
    """What all slots of a model know together of its first batches."""

    def __init__(self) -> None:
        self.longest: float | None = None  # seconds of the longest; None while there was none

    def took(self, seconds: float) -> None:
        self.longest = max(seconds, self.longest or 0.0)

    def limit(self, usual: float, at_most: float) -> float:
        """How long the next first batch may run: at least as long as any batch. Where it is known how long a
        first batch takes, one that takes much longer hangs like any other."""
        return max(usual, at_most if self.longest is None else min(at_most, PATIENT * self.longest))
