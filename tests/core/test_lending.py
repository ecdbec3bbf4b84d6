"""What a zone may borrow: what the others do not need, shared by those that need it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.lending import NOTHING, RESERVE, Loan, ZoneLoad, loan_of

LOADS = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(ZoneLoad, st.integers(0, 20), st.floats(0.0, 40.0), st.booleans()),
    max_size=5,
)


def test_alone_there_is_nobody_to_borrow_from() -> None:
    assert loan_of("a", {}) == NOTHING
    assert loan_of("a", {"a": ZoneLoad(4, 9.0)}) == NOTHING
    assert loan_of("a", {"a": ZoneLoad(4, 9.0), "b": ZoneLoad(0, 0.0)}) == NOTHING


def test_what_others_do_not_need_is_lent_and_whoever_has_most_to_spare_is_asked_first() -> None:
    loads = {"a": ZoneLoad(10, 14.0), "b": ZoneLoad(10, 6.0), "c": ZoneLoad(10, 2.0), "d": ZoneLoad(10, 9.9)}
    loan = loan_of("a", loads)
    assert loan.zones == ("c", "b")
    assert loan.workers == pytest.approx(20 * (1 - RESERVE) - 8.0)


def test_zones_in_need_share_what_there_is_and_whoever_lends_counts_on_the_rest() -> None:
    loads = {"a": ZoneLoad(10, 12.0, True), "b": ZoneLoad(10, 15.0, True), "c": ZoneLoad(10, 4.0)}
    spare = 10 * (1 - RESERVE) - 4.0
    assert loan_of("a", loads) == loan_of("b", loads) == Loan(spare / 2, ("c",))
    assert loan_of("c", loads) == Loan(0.0, (), lends=spare)


def test_no_more_is_lent_than_is_needed_and_all_who_can_lend_their_part() -> None:
    loads = {"a": ZoneLoad(10, 13.0, True), "b": ZoneLoad(10, 3.0), "c": ZoneLoad(10, 6.0)}
    assert loan_of("b", loads).lends == pytest.approx(3.0 * 6 / 9)
    assert loan_of("c", loads).lends == pytest.approx(3.0 * 3 / 9)
    assert loan_of("a", loads).lends == 0.0


def test_nothing_is_kept_for_a_zone_that_is_asked_for_much_and_not_late_yet() -> None:
    loads = {"a": ZoneLoad(10, 13.0, False), "b": ZoneLoad(10, 3.0)}
    assert loan_of("b", loads).lends == 0.0
    assert loan_of("b", {**loads, "a": ZoneLoad(0, 3.0)}).lends == 3.0


def test_a_zone_without_workers_asks_everybody_if_nobody_has_anything_to_spare() -> None:
    full = {"b": ZoneLoad(10, 11.0), "c": ZoneLoad(10, 10.0)}
    assert loan_of("a", {"a": ZoneLoad(0, 5.0), **full}) == Loan(1.0, ("b", "c"))
    assert loan_of("a", full) == Loan(1.0, ("b", "c"))
    assert loan_of("a", {"a": ZoneLoad(1, 5.0), **full}) == NOTHING


@given(LOADS)
def test_zones_in_need_never_count_on_more_than_there_is_to_spare(loads: dict[str, ZoneLoad]) -> None:
    in_need = [zone for zone, load in loads.items() if load.workers and load.needed > load.workers]
    spare = sum(max(0.0, (1.0 - RESERVE) * load.workers - load.needed) for load in loads.values())
    assert sum(loan_of(zone, loads).workers for zone in in_need) <= spare + 1e-9


@given(LOADS)
def test_what_is_lent_is_what_is_lacking_as_far_as_there_is_enough(loads: dict[str, ZoneLoad]) -> None:
    lent = sum(loan_of(zone, loads).lends for zone in loads)
    lacking, spare = (sum(getattr(load, what) for load in loads.values()) for what in ("lacking", "spare"))
    assert lent == pytest.approx(min(lacking, spare))


@given(LOADS, st.sampled_from("abcde"))
def test_only_zones_with_workers_are_asked_and_never_the_own(loads: dict[str, ZoneLoad], mine: str) -> None:
    loan = loan_of(mine, loads)
    assert mine not in loan.zones
    assert all(loads[zone].workers for zone in loan.zones)
    assert loan.workers == 0.0 or loan.zones
    others = any(load.workers for zone, load in loads.items() if zone != mine)
    if others and not (mine in loads and loads[mine].workers):
        assert loan.workers >= 1.0
