"""A store that the machine holds up is excused, and one that computes is not."""

import time

from redis_servers import redis_server
from still_store import standing_still, stood_still


def test_a_store_that_is_stopped_stands_still() -> None:
    with redis_server() as server, standing_still(server.url) as still:
        began = time.monotonic()
        server.stop()
        time.sleep(0.3)  # how long it is stopped is what is measured
        ended = time.monotonic()
        server.cont()
        with server.client() as client:
            client.ping()
    assert any(since < ended and until > began for since, until in still)


def test_a_store_that_computed_meanwhile_did_not_stand_still() -> None:
    assert stood_still(0.2, computed=0.01)
    assert not stood_still(0.2, computed=0.15)
    assert not stood_still(0.01, computed=0.0)
