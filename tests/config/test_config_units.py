"""Durations and sizes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.units import LONGEST, MissingUnit, parse_duration, parse_size, write_duration, write_size


@pytest.mark.parametrize(
    ("written", "seconds"),
    [("50ms", 0.05), ("35ms", 0.035), ("2s", 2.0), ("1.5 s", 1.5), ("10min", 600.0), ("1h", 3600.0),
     ("250us", 0.00025), ("250µs", 0.00025), ("2m", 120.0), ("0", 0.0), (0, 0.0), (0.0, 0.0)],
)  # fmt: skip
def test_a_duration_is_read_in_its_unit(written: object, seconds: float) -> None:
    assert parse_duration(written) == seconds


@pytest.mark.parametrize(
    "written",
    ["", "ms", "-1s", "5M", "5 fortnights", "1e3s", "9999999h", -1, float("nan"), float("inf"), True, None],
)
def test_what_is_not_a_duration_is_refused(written: object) -> None:
    with pytest.raises(ValueError):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "advice"),
    [("50", "50 has no unit: write 50ms or 50s"), (" 1.5 ", "1.5 has no unit: write 1.5ms or 1.5s"),
     (2, "2 has no unit: write 2ms or 2s"), (0.05, "0.05 has no unit: write 0.05ms or 0.05s")],
)  # fmt: skip
def test_a_number_without_a_unit_is_answered_with_both_spellings_that_may_be_meant(
    written: object, advice: str
) -> None:
    with pytest.raises(MissingUnit, match=f"^{advice}$"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("written", "size"),
    [("1MiB", 2**20), ("2KB", 2000), ("2kb", 2000), ("1.5 KiB", 1536), ("7B", 7), ("7", 7), (1024, 1024)],
)  # fmt: skip
def test_a_size_is_read_in_its_unit(written: object, size: int) -> None:
    assert parse_size(written) == size


@pytest.mark.parametrize("written", ["", "1M", "0.5B", "-1KB", "1 MiBs", 1.5, -1, True, None])
def test_what_is_not_a_size_is_refused(written: object) -> None:
    with pytest.raises(ValueError):
        parse_size(written)


@given(st.floats(0, LONGEST))
def test_a_duration_survives_being_written(seconds: float) -> None:
    assert parse_duration(write_duration(seconds)) == seconds


@given(st.integers(0, 2**60))
def test_a_size_survives_being_written(size: int) -> None:
    assert parse_size(write_size(size)) == size


@pytest.mark.parametrize(
    ("seconds", "written"),
    [(0.0, "0s"), (0.00025, "250us"), (0.05, "50ms"), (1.5, "1.5s"), (90.0, "90s"), (600.0, "10min"),
     (7200.0, "2h")],
)  # fmt: skip
def test_a_duration_is_written_in_the_unit_a_person_would_choose(seconds: float, written: str) -> None:
    assert write_duration(seconds) == written


@pytest.mark.parametrize(("size", "written"), [(0, "0B"), (512, "512B"), (2**20, "1MiB"), (2_000_000, "2MB")])
def test_a_size_is_written_in_the_largest_unit_that_divides_it(size: int, written: str) -> None:
    assert write_size(size) == written
