"""File descriptors: each client connection takes one, and a process may open only so many.

When a process starts, `listen.py` raises that limit, and `roles/data_plane.py` bounds the connections by it.
"""

import logging
import resource

from penstock.config import Config, Server

log = logging.getLogger("penstock")

# Descriptors kept for the probes, the admin plane, workers, Redis, the ledger, and clients that are refused.
SPARE = 256
SPARE_FOR_A_WORKER = 8  # descriptors kept besides those for each worker
PLENTY = 4096  # connections; a server that may have so many does not warn, unless more were asked for


def raise_limit() -> None:
    """Raises the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_allowed(config: Config) -> int:
    """Returns `server.max_connections`, or fewer if this process cannot open so many. The log says so."""
    wanted = config.server.max_connections
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        return wanted
    workers = sum(model.workers for model in config.models.values())
    spare = min(limit // 2, SPARE + SPARE_FOR_A_WORKER * workers)
    allowed = min(wanted, limit - spare)
    if allowed < wanted:
        matters = wanted != Server().max_connections or allowed < PLENTY
        log.log(
            logging.WARNING if matters else logging.DEBUG,
            "fewer connections than server.max_connections: raise the limit of open files (ulimit -Hn)",
            extra={
                "max_connections": wanted,
                "connections": allowed,
                "open_files": limit,
                "kept_free": spare,
            },
        )
    return allowed
