"""What limits at which size, and how many cells that takes."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.advice.arithmetic import WELL_USED
from penstock.advice.cells import LINES, REGISTRY, REQUESTS, cells_of, site_of

RATES = st.floats(100.0, 1e6)
EACH = st.floats(100.0, 20_000.0)
BATCH = st.floats(1.0, 128.0)


@given(RATES, EACH, BATCH)
def test_as_many_cells_as_are_needed_and_no_more(rate: float, each: float, batch: float) -> None:
    cells = cells_of(rate, each, batch)
    assert site_of(rate / cells, each, batch).redis <= WELL_USED
    assert cells == 1 or not site_of(rate / (cells - 1), each, batch).fits


def test_what_limits_is_what_takes_most_of_redis() -> None:
    assert site_of(1000.0, 320.0, 32.0).limit == ""
    assert site_of(100_000.0, 320.0, 32.0).limit == REQUESTS
    assert site_of(100_000.0, 20.0, 32.0).limit == REGISTRY  # GPUs that do little: there are many of them
    assert site_of(100_000.0, 320.0, 0.5).limit == LINES


def test_the_registry_grows_with_the_square_of_the_processes_and_requests_with_their_number() -> None:
    one, ten = site_of(100_000.0, 320.0, 32.0), site_of(1_000_000.0, 320.0, 32.0)
    assert round(ten.requests / one.requests) == 10
    assert ten.registry / one.registry > 80


@given(RATES, EACH)
def test_one_gateway_and_one_batcher_may_fail_everywhere(rate: float, each: float) -> None:
    site = site_of(rate, each, 32.0)
    assert site.gateways >= 2
    assert site.batchers >= 2
    assert site.processes == site.gateways + site.batchers + site.workers
