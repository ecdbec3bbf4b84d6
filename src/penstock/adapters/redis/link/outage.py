"""What counts as Redis being away, and how to wait until it is back.

Being away is one thing for all of Penstock: refused, reset or silent connections, a restart that still
loads its data, a cluster between two primaries, a full memory or disk, a script that holds everything up.
Everything else that redis-py raises is a mistake of ours and passes untouched.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_errors

from penstock import patience
from penstock.errors import StoreDown

_RETRY_AFTER = 1.0
_AWAY = (
    redis_errors.ConnectionError,
    redis_errors.TimeoutError,
    redis_errors.ClusterError,
    redis_errors.RedisClusterException,
    redis_errors.TryAgainError,
    redis_errors.ReadOnlyError,
    redis_errors.OutOfMemoryError,
    OSError,
)
# Answers that redis-py has no class for: a full disk, a long script, too few replicas, a demoted primary.
_AWAY_WORDS = ("MISCONF", "BUSY ", "NOREPLICAS", "UNBLOCKED", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "OOM ")


def is_outage(error: BaseException) -> bool:
    """Whether the same call may succeed later without any of us changing."""
    if isinstance(error, redis_errors.CrossSlotTransactionError):
        return False
    if isinstance(error, _AWAY):
        return True
    if isinstance(error, redis_errors.ResponseError):
        return str(error).startswith(_AWAY_WORDS)
    # uvloop's word for a transport that went away between two calls.
    return isinstance(error, RuntimeError) and "handler is closed" in str(error)


def translate(error: Exception) -> Exception:
    """StoreDown for an outage; any other error as it came."""
    if isinstance(error, StoreDown) or not is_outage(error):
        return error
    return StoreDown("Redis does not answer.", retry_after=_RETRY_AFTER, details=str(error))


@contextmanager
def guard() -> Iterator[None]:
    """Raises StoreDown instead of whatever redis-py says when Redis is away."""
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreDown) or not is_outage(error):
            raise
        raise translate(error) from error


class Patience(patience.Patience):
    """The patience of a loop that speaks to Redis itself."""

    __slots__ = ()

    def is_outage(self, error: Exception) -> bool:
        return is_outage(error) or isinstance(error, StoreDown)
