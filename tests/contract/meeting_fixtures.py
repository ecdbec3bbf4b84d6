"""A meeting of each kind, for tests of what is promised of all of them."""

import pytest
from meeting import EVERYWHERE, MEMORY, Play, meet_at, player


@pytest.fixture(params=EVERYWHERE)
def play(request: pytest.FixtureRequest, redis_urls: dict[str, str]) -> Play:
    """Plays a scene in memory, and over each kind of server."""
    return player(meet_at("" if request.param == MEMORY else redis_urls[request.param]))
