"""The figure of the simulator's speed is held against what was promised of each case."""

from benchmarks.simulator import CASES, figure, speed


def test_every_case_is_played_and_held_to_the_promise() -> None:
    assert all(speed(service, rate, 300) > 0.0 for service, rate in CASES.values())
    found = dict(zip(CASES, (299_999.0, 300_000.0, 400_000.0), strict=True))
    assert [check.holds for check in figure(found, 1).checks] == [False, True, True]
