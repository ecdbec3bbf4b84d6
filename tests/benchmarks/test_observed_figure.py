"""What all observers together cost is held against the same with nobody there."""

import pytest
from benchmarks.receiver import taking
from benchmarks.serving import DidNotServe
from benchmarks.wrk import Load

from benchmarks import looking, observed
from server import running

LOAD = Load(512, 1, 5)


def turns(*rates: float, scrapes: int = 1, traces: int = 1) -> list[observed.Turn]:
    return [observed.Turn(rate, 30.0, 0, scrapes, traces) for rate in rates]


def test_each_turn_is_held_against_its_pair_whatever_the_machine_did_meanwhile() -> None:
    embedded = observed.Pair(turns(10_000, 20_000, 5_000), turns(9_700, 19_200, 4_900))
    redis = observed.Pair(turns(4_000, 5_000, 3_000), turns(3_000, 4_700, 2_800))
    found = observed.figure({"embedded": embedded, "over Redis": redis}, LOAD, observed.BROWSER)
    first, second = found.checks
    assert (first.measured, first.holds) == (0.97, True)
    assert (round(second.measured or 0.0, 3), second.holds) == (0.933, False)
    assert found.notes == []
    assert observed.figure({"embedded": embedded}, LOAD, observed.STREAM).notes


@pytest.mark.parametrize(("scrapes", "traces"), [(0, 1), (1, 0)])
def test_a_figure_without_one_of_the_observers_is_none(scrapes: int, traces: int) -> None:
    pair = observed.Pair(turns(10_000), turns(9_900, scrapes=scrapes, traces=traces))
    with pytest.raises(RuntimeError, match="embedded"):
        observed.refuse_unobserved("embedded", pair)
    observed.refuse_unobserved("embedded", observed.Pair(turns(10_000), turns(9_900)))


def test_traces_reach_the_receiver_while_somebody_follows_the_stream() -> None:
    with taking() as (receiver, taken):
        traced = {"PENSTOCK_TRACING_ENDPOINT": receiver, "PENSTOCK_TRACING_RATIO": "1"}
        with running("sim:1ms", environment=traced) as server:
            with looking.at_stream(server.admin_url):
                assert server.post("/v1/inference", {"input": "x"}).status == 200
            assert server.post("/v1/inference", {"input": "x"}).status == 200
    assert sum(taken) > 0  # at the latest when the server has ended


def test_a_stream_that_ends_under_the_load_is_told_of() -> None:
    with (
        running("sim:1ms") as server,
        pytest.raises(DidNotServe, match="ended"),
        looking.at_stream(server.admin_url),
    ):
        server.stop()
