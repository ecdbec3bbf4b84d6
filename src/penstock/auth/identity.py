"""What a tenant may be called: the one rule for keys, tokens and the commands that make keys."""

from typing import TypeGuard

from penstock.types import Identity

__all__ = ["Identity", "is_name"]

LONGEST_NAME = 128


def is_name(text: object) -> TypeGuard[str]:
    """Whether a tenant can be called this: it stands in logs, in Redis and in metrics."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= LONGEST_NAME
        and text.isprintable()
        and text == text.strip()
    )
