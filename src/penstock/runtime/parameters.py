"""Checks whether a model takes the parameters that a request brings. The gateway calls it for each request that has
any, before it is accepted."""

from collections.abc import Sequence
from functools import lru_cache

import msgspec

from penstock.errors import Unacceptable
from penstock.runtime.desk import Desk

REMEMBERED = 1024  # bytes: longer parameters are read each time, so that nobody can fill the memory with them


def check_parameters(desk: Desk, parameters: bytes) -> None:
    """Raises Unacceptable for parameters that the model does not take."""
    if not desk.takes_parameters():
        raise Unacceptable(f"the model {desk.model!r} takes no parameters")
    known = desk.parameter_names()
    if known is not None:
        for name in (_names_in if len(parameters) > REMEMBERED else _remembered_names)(parameters):
            if name not in known:
                raise Unacceptable(
                    f"the model {desk.model!r} takes no parameter {name[:100]!r}; it takes {', '.join(known)}"
                )


def _names_in(parameters: bytes) -> Sequence[str]:
    return tuple(msgspec.json.decode(parameters, type=dict[str, msgspec.Raw]))


_remembered_names = lru_cache(maxsize=1024)(_names_in)
