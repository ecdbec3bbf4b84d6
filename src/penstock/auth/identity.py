"""What a tenant may be called: the one rule for API keys (`keys.py`) and tokens (`claims.py`). The other files of
this folder also take `Identity` from here, which `penstock/types.py` defines."""

from typing import TypeGuard

from penstock.types import Identity

__all__ = ["Identity", "is_name"]

LONGEST_NAME = 128  # characters


def is_name(text: object) -> TypeGuard[str]:
    """Returns whether a tenant can have this name, which is written into logs, Redis and metrics."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= LONGEST_NAME
        and text.isprintable()
        and text == text.strip()
    )
