"""Which errors mean that Redis is away, and how a loop waits until it is back. The files of `redis/bus` and
`redis/records` put their commands under `guard`, and their loops wait with `Patience`; they take both from
`connect.py`.

Redis counts as away when connections are refused, reset or silent, while it restarts and loads its data, while a
cluster is between two primaries, when its memory or disk is full, and while a script holds everything up. Any other
error that redis-py raises is a mistake of ours and is not changed.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import exceptions as redis_errors

from penstock import patience
from penstock.errors import StoreDown

_RETRY_AFTER = 1.0  # seconds
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
    """Returns whether the same call may succeed later, when Redis is well again."""
    if isinstance(error, redis_errors.CrossSlotTransactionError):
        return False
    if isinstance(error, _AWAY):
        return True
    if isinstance(error, redis_errors.ResponseError):
        return str(error).startswith(_AWAY_WORDS)
    # uvloop says so when a transport has closed between two calls.
    return isinstance(error, RuntimeError) and "handler is closed" in str(error)


def translate(error: Exception) -> Exception:
    """Returns StoreDown for an outage; any other error as it came."""
    if isinstance(error, StoreDown) or not is_outage(error):
        return error
    return StoreDown("Redis does not answer.", retry_after=_RETRY_AFTER, details=str(error))


@contextmanager
def guard() -> Iterator[None]:
    """Raises StoreDown when the calls within it fail because Redis is away. Other errors pass."""
    try:
        yield
    except Exception as error:
        if isinstance(error, StoreDown) or not is_outage(error):
            raise
        raise translate(error) from error


class Patience(patience.Patience):
    """The patience of a loop that speaks to Redis: how long it waits before the next attempt."""

    __slots__ = ()

    def is_outage(self, error: Exception) -> bool:
        return is_outage(error) or isinstance(error, StoreDown)
