"""What the soak says of memory that grows, and of memory that does not."""

import os
from collections import Counter
from pathlib import Path

import pytest
from benchmarks.memory import Held, held, slope
from benchmarks.soak import arguments, figure

HOUR = 3600.0


def test_a_line_through_samples_is_found_with_its_uncertainty() -> None:
    times = [10.0 * each for each in range(360)]
    exact = slope(times, [50 + 3 * time / HOUR for time in times])
    assert exact.each_hour == pytest.approx(3.0)
    assert exact.error == pytest.approx(0.0, abs=1e-6)
    rough = slope(times, [50 + each % 2 for each in range(360)])
    assert abs(rough.each_hour) < rough.error < 0.3
    assert slope(times[:2], [1.0, 2.0]).error == float("inf")


def test_a_process_holds_its_own_memory_and_its_open_files() -> None:
    before = held({"this": os.getpid()})["this"]
    with Path(os.devnull).open() as one, Path(os.devnull).open() as another:
        more = bytearray(os.urandom(64)) * (1 << 19)  # 32 MiB
        after = held({"this": os.getpid()})["this"]
        assert one.fileno() != another.fileno()
    assert after.descriptors == before.descriptors + 2
    assert after.mib - before.mib > 25
    assert len(more) == 1 << 25


def _judged(growing: float, opened: int, endings: Counter[str]) -> dict[str, bool]:
    """Which promises hold after an hour with a process that grows by so many MiB and opens so many descriptors."""
    samples = [
        (10.0 * each, Held(60 + growing * each / 360, 20 + opened * each // 360)) for each in range(361)
    ]
    given = arguments(["--minutes", "60", "--warm-up", "10"])
    return {check.what: check.holds for check in figure(given, {"server": samples}, endings).checks}


def test_growth_descriptors_and_failures_are_judged_each_for_itself() -> None:
    memory, files = "server: growth", "server: more descriptors in the last third"
    failed = "requests that failed"
    good = Counter({"plain 200": 5, "task SUCCESS": 2})
    assert _judged(0.5, 0, good) == {memory: True, files: True, failed: True}
    assert _judged(2.0, 0, good) == {memory: False, files: True, failed: True}
    assert _judged(0.0, 9, good) == {memory: True, files: False, failed: True}
    assert _judged(0.0, 0, good + Counter({"plain 502": 1})) == {memory: True, files: True, failed: False}
