"""Headers of endpoints whose value is in an environment variable, so that the configuration holds no secret.

The backends for endpoints read them when they are made (`http.py`, `grpc.py`). Only the environment is read.
"""

import re
from collections.abc import Mapping

from penstock.errors import UserMistake

_FROM_ENVIRONMENT = re.compile(r"(|.* )env:([A-Za-z_][A-Za-z0-9_]*)")


def from_environment(value: str, environ: Mapping[str, str], where: str) -> str:
    """Returns a value such as `env:NAME` or `Bearer env:NAME` with the variable's content in place of its name, and
    any other value as it is. `where`: the setting, for messages."""
    match = _FROM_ENVIRONMENT.fullmatch(value)
    if match is None:
        return value
    before, variable = match.groups()
    if variable not in environ:
        raise UserMistake(f"{where} wants the environment variable {variable}: set it")
    value = before + environ[variable].strip()
    if not value.isprintable():
        raise UserMistake(f"{where} cannot be sent with what {variable} holds: set it anew")
    return value
