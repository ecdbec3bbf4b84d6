"""Schedules: sorted, at the rate asked for, the same again for the same seed."""

from itertools import pairwise
from pathlib import Path
from random import Random
from statistics import fmean, pvariance

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UserMistake
from penstock.load.arrivals import burstiness, bursty, poisson, trace, uniform
from penstock.load.recorded import read

HEADER = "TIMESTAMP,ContextTokens,GeneratedTokens\n"


def write(folder: Path, rows: str, header: str = HEADER, name: str = "t.csv") -> Path:
    path = folder / name
    path.write_text(header + rows)
    return path


@given(st.floats(1, 500), st.floats(0.1, 5), st.integers())
def test_every_schedule_is_sorted_and_inside_its_duration(rate: float, duration: float, seed: int) -> None:
    for times in (
        poisson(rate, duration, Random(seed)),
        uniform(rate, duration),
        bursty(rate, duration, 3, 1, Random(seed)),
    ):
        assert list(times) == sorted(times)
        assert all(0 <= at <= duration + 0.5 / rate for at in times)


def test_poisson_gaps_have_the_mean_and_the_spread_of_an_exponential() -> None:
    gaps = [later - earlier for earlier, later in pairwise(poisson(1000, 100, Random(1)))]
    assert fmean(gaps) == pytest.approx(0.001, rel=0.02)
    assert pvariance(gaps) / fmean(gaps) ** 2 == pytest.approx(1, rel=0.05)


def test_the_same_seed_gives_the_same_schedule() -> None:
    assert poisson(100, 5, Random(7)) == poisson(100, 5, Random(7)) != poisson(100, 5, Random(8))


def test_uniform_is_a_metronome() -> None:
    times = uniform(10, 2)
    assert len(times) == 20
    assert [later - earlier for earlier, later in pairwise(times)] == pytest.approx([0.1] * 19)


def test_bursts_keep_the_mean_rate_and_reach_the_factor() -> None:
    times = bursty(1000, 120, 3, 6, Random(1))
    assert len(times) / 120 == pytest.approx(1000, rel=0.02)
    per_second = [sum(second <= at < second + 1 for at in times) for second in range(6)]
    assert per_second[5] == pytest.approx(3000, rel=0.1)  # the last sixth of each period
    assert per_second[0] == pytest.approx(600, rel=0.15)


def test_a_trace_is_scaled_to_the_rate_with_its_order_and_lengths_kept(tmp_path: Path) -> None:
    stamps = ("18:17:03.0000000,10", "18:17:04.5000000,20", "18:17:07.0000001,30")
    rows = "".join(f"2023-11-16 {stamp},1\n" for stamp in stamps)
    times, tokens, sizes, credit = trace(write(tmp_path, rows), rate=2)
    assert list(times) == pytest.approx([0, 0.375, 1.0])
    assert (list(tokens), sizes, credit) == ([10, 20, 30], None, "")


def test_a_trace_is_cut_at_the_duration(tmp_path: Path) -> None:
    rows = "".join(f"2023-11-16 18:17:{second:02},{second},1\n" for second in range(60))
    times, tokens, _, _ = trace(write(tmp_path, rows), rate=10, duration=2)
    assert (len(times), len(tokens)) == (20, 20)
    assert times[-1] < 2


def test_requests_written_out_of_order_are_put_in_order(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:05,5,1\n2023-11-16 18:17:03,3,1\n2023-11-16 18:17:04,4,1\n"
    times, tokens, _, _ = trace(write(tmp_path, rows), rate=1)
    assert (list(times), list(tokens)) == ([0, 1, 2], [3, 4, 5])


def test_an_azure_trace_names_its_source(tmp_path: Path) -> None:
    rows = "2023-11-16 18:17:03,3,1\n2023-11-16 18:17:04,4,1\n"
    assert "CC-BY 4.0" in trace(write(tmp_path, rows, name="azure_code.csv"), rate=1).credit


@pytest.mark.parametrize(
    ("header", "rows", "said"),
    [
        ("a,b\n", "1,2\n", "header lacks ContextTokens and TIMESTAMP"),
        ("", "", "header lacks"),
        (HEADER, "", "at least two requests"),
        (HEADER, "2023-11-16 18:17:03,5,1\nyesterday,5,1\n", "line 3: expected a UTC time"),
        (HEADER, "2023-11-16 18:17:03,many,1\n", "line 2: expected a UTC time and a count of tokens"),
        (HEADER, "2023-11-16 18:17:03,-1,1\n", "line 2"),
        (HEADER, "2023-11-16 18:17:03\n", "line 2"),
        (HEADER, "2023-11-16 18:17:03,5,1\n2023-11-16 18:17:03,5,1\n", "one instant"),
    ],
)
def test_a_malformed_trace_is_explained(tmp_path: Path, header: str, rows: str, said: str) -> None:
    with pytest.raises(UserMistake, match=said):
        trace(write(tmp_path, rows, header), rate=1)


def test_a_trace_that_cannot_be_read_is_explained(tmp_path: Path) -> None:
    with pytest.raises(UserMistake, match="No such file"):
        trace(tmp_path / "none.csv", rate=1)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserMistake, match="not a trace"):
        trace(tmp_path / "binary.csv", rate=1)


def test_a_rate_or_duration_of_nothing_is_explained() -> None:
    with pytest.raises(UserMistake, match="rate must be above 0"):
        poisson(0, 1, Random(1))
    with pytest.raises(UserMistake, match="duration must be above 0"):
        uniform(1, -1)
    with pytest.raises(UserMistake, match="factor above 1"):
        bursty(1, 1, 1, 1, Random(1))


def test_what_a_server_recorded_has_sizes_tiers_and_tenants(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,InputBytes,OutputBytes,Tenant,Tier,Model\n"
        "2026-01-01 00:00:02.5,10,40,8,0,paid,it\n"
        "2026-01-01 00:00:01.5,30,80,8,1,free,it\n"
        "2026-01-01 00:00:03.5,,,,1,,it\n"  # it was refused
        "2026-01-01 00:00:09.5,7,7,7,2,free,other\n"
    )
    found = read(path, "it")
    assert (list(found.tokens), list(found.sizes or ())) == ([30, 10, 20], [80, 40, 60])
    assert found.rate == pytest.approx(1.0)
    assert (found.tiers, found.tenants) == ({"paid": 0.5, "free": 0.5}, 2)
    assert len(read(path).times) == 4
    with pytest.raises(UserMistake, match="at least two requests of other, this one has 1"):
        read(path, "other")
    times, tokens, sizes, _ = trace(path, rate=1.0, duration=1.5)
    assert len(times) == len(tokens) == len(sizes or ()) == 3


def test_how_bursty_arrivals_are() -> None:
    assert burstiness([]) == 1.0
    assert burstiness(uniform(10.0, 20.0)) == pytest.approx(1.0, abs=0.1)
    assert burstiness(sorted([*uniform(10.0, 20.0), *[5.5] * 90])) == pytest.approx(100 / 14.5, rel=0.05)
