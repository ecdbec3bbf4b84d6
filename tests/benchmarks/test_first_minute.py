"""What the figure of the first minute says: promised of warmed sizes, and only reported of cold ones."""

import pytest
from benchmarks.first_minute import CASES, Case, Found, Row, figure, simulated

SECONDS = 4.0  # of the sixty: in virtual time the new sizes all come within the first two


@pytest.mark.parametrize("case", CASES, ids=[case.title for case in CASES])
def test_with_powers_and_a_warm_up_the_first_seconds_are_like_any_others(case: Case) -> None:
    warm, cold = (simulated(case, SECONDS, warm=warm) for warm in (True, False))
    assert warm.ratio is not None
    assert cold.first is not None
    assert warm.first is not None
    assert warm.ratio < 1.5
    assert cold.first > 2.0 * warm.first


def test_what_was_warmed_is_held_to_the_promise_and_what_is_cold_shows_what_that_is_worth() -> None:
    rows = [
        Row(CASES[0], warm, "measured", Found(first, 30.0)) for warm, first in ((True, 31.0), (False, 90.0))
    ]
    made = figure(rows, 60.0)
    (check,) = made.checks
    assert check.measured == pytest.approx(1.03, abs=0.01)
    assert check.holds
    assert "3.00" in made.tables[0]


def test_a_first_minute_without_answers_holds_no_promise() -> None:
    assert not figure([Row(CASES[0], True, "measured", Found(None, 30.0))], 60.0).checks[0].holds
