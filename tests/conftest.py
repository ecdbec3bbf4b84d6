"""Options of the whole suite. Its folder is on the path, so that every test finds `server`.

Hypothesis tries the same examples each time, so that a change is judged by what it changes. `make chaos` looks for
new ones, and so does `pytest --hypothesis-profile=explore`. How long an example takes is the machine's affair.
"""

import random
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("same", settings.get_profile("explore"), derandomize=True)
settings.load_profile("same")

pytest_plugins = (
    "arena",
    "meeting_fixtures",
    "postgres_fixtures",
    "process_fixtures",
    "redis_fixtures",
    "trace_receiver",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("penstock")
    group.addoption("--chaos-long", action="store_true", help="run the long forms of the fault tests")
    group.addoption("--chaos-seed", type=int, help="replay the fault tests with this seed")


@pytest.fixture
def chaos_long(request: pytest.FixtureRequest) -> bool:
    """Whether the long forms of the fault tests are asked for."""
    return bool(request.config.getoption("--chaos-long"))


@pytest.fixture
def chaos_seed(request: pytest.FixtureRequest, chaos_long: bool) -> int:
    """The seed of this test. In the short form it is the same each time, for the reason above. In the long form it
    is a new one, and printed, so that a failure can be replayed."""
    given: int | None = request.config.getoption("--chaos-seed")
    if given is not None:
        return given
    seed = random.SystemRandom().randrange(2**32) if chaos_long else crc32(request.node.nodeid.encode())
    print(f"replay with --chaos-seed {seed}")
    return seed
