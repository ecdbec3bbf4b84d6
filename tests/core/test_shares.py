"""What each tenant may hold: nobody crowds out the others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.shares import Shares
from penstock.errors import Overloaded, OverQuota
from penstock.share import LITTLE, Full, refusal

MOST, BYTES, SHARE = 100, 100_000, 0.4


def shares() -> Shares:
    return Shares(MOST, BYTES, SHARE)


def fill(held: Shares, tenant: str, size: int) -> Full:
    """As much as it gets, and why it gets no more."""
    while (full := held.full(tenant, size)) is None:
        held.take(tenant, size)
    return full


@pytest.mark.parametrize(("size", "number"), [(1, 40), (5_000, 8), (40_001, 1)])
def test_a_tenant_has_its_share_by_number_and_by_bytes_and_at_least_one_thing(size: int, number: int) -> None:
    held = shares()
    assert fill(held, "anna", size) is Full.TENANT
    assert held.held("anna") == (number, number * size)


def test_who_has_no_name_is_alone_and_may_hold_everything() -> None:
    held = shares()
    assert fill(held, "", 1_000) is Full.TOTAL
    assert held.held("") == (100, 100_000)


def test_a_share_of_one_is_all_of_it() -> None:
    held = Shares(MOST, BYTES)
    assert fill(held, "anna", 1) is Full.TOTAL
    assert held.number == MOST


def test_the_last_fifth_is_for_tenants_that_hold_little() -> None:
    held = shares()
    for tenant in ("anna", "bert"):
        assert fill(held, tenant, 5_000) is Full.TENANT
    assert fill(held, "carl", 1_000) is Full.TOTAL
    assert held.held("carl") == (1, 1_000)
    for number in range(19):
        assert held.full(f"newcomer {number}", 1_000) is None
        held.take(f"newcomer {number}", 1_000)
    assert held.full("one too many", 1_000) is Full.TOTAL


def test_what_grows_beyond_its_tenants_share_is_noticed_and_a_small_tenant_is_let_off() -> None:
    held = shares()
    for tenant in ("anna", "bert", "carl"):
        held.take(tenant, 10)
        held.take(tenant, 10)
        held.grow(tenant, 39_000)
    assert held.overfull
    assert held.overgrown("anna") is Full.TOTAL
    held.grow("anna", 2_000)
    assert held.overgrown("anna") is Full.TENANT
    held.take("modest", BYTES // LITTLE)
    assert held.overgrown("modest") is None


def test_alone_it_outgrows_nothing_but_all_of_it() -> None:
    held = shares()
    held.take("", 10)
    held.grow("", BYTES - 10)
    assert held.overgrown("") is None
    held.grow("", 1)
    assert held.overgrown("") is Full.TOTAL


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 60_000), st.booleans()), max_size=300))
def test_nobody_is_let_in_beyond_the_bounds_and_all_that_is_given_back_is_free_again(
    steps: list[tuple[str, int, bool]],
) -> None:
    held, things = shares(), list[tuple[str, int]]()
    for tenant, size, leaves in steps:
        if leaves and things:
            held.give(*things.pop(0))
        elif held.full(tenant, size) is None:
            held.take(tenant, size)
            things.append((tenant, size))
        assert not held.overfull
        number, taken = held.held(tenant)
        assert number <= 1 or (number <= SHARE * MOST and taken <= SHARE * BYTES)
    for thing in things:
        held.give(*thing)
    assert (held.number, held.bytes, [held.held(tenant) for tenant in "abcde"]) == (0, 0, [(0, 0)] * 5)


def test_a_refusal_names_the_setting_and_says_whose_bound_it_is() -> None:
    own = refusal(Full.TENANT, "tasks", "limits.max_tasks is 9", 0.4, 3.0)
    assert isinstance(own, OverQuota)
    assert "limits.tenant_share is 0.4" in own.message
    common = refusal(Full.TOTAL, "tasks", "limits.max_tasks is 9", 0.4, 3.0)
    assert isinstance(common, Overloaded)
    assert (common.message, common.retry_after) == (
        "there is no room for more tasks: limits.max_tasks is 9",
        3.0,
    )
