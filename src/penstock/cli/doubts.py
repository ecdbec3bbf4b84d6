"""Logs settings that are allowed but probably not meant, once, when a server starts.

`serve.py`, `roles.py` (for `penstock worker`) and `up.py` call it; `config/consistency.py` finds the doubts.
"""

import logging

from penstock.config import Config, doubts

log = logging.getLogger("penstock")


def tell_doubts(config: Config, *, over_redis: bool = False) -> None:
    """Logs each doubt. `over_redis`: whether Redis is used for certain."""
    for doubt in doubts(config, over_redis=over_redis):
        log.warning(doubt)
