"""`penstock sim` (being written)."""


def sim() -> None:
    """Simulate."""
