"""One server of each kind for the whole session; every test has a namespace of its own on it.

Tests that hurt a server start one for themselves.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from uuid import uuid4

import pytest

from penstock.adapters.redis.link.connect import RedisSettings
from redis_servers import KINDS, VALKEY, patient, redis_cluster, redis_server


@pytest.fixture(scope="session")
def redis_urls() -> Iterator[dict[str, str]]:
    """Addresses of what has been started so far."""
    with ExitStack() as stack:
        yield _Started(stack)


class _Started(dict[str, str]):
    """Starts what is asked for, once."""

    def __init__(self, stack: ExitStack) -> None:
        super().__init__()
        self._stack = stack

    def __missing__(self, kind: str) -> str:
        if kind in KINDS:
            self[kind] = self._stack.enter_context(redis_server(kind)).url
        else:
            cluster = self._stack.enter_context(redis_cluster(VALKEY))
            cluster.give_up_after(
                60.0
            )  # nobody hurts it: a node that is silent is on a machine that stands still
            self[kind] = cluster.url
        return self[kind]


@pytest.fixture(params=[*KINDS, "cluster"])
def redis_settings(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> RedisSettings:
    """A namespace of its own on each kind of server in turn."""
    return patient(redis_urls[request.param], namespace=f"test-{uuid4().hex[:8]}")
