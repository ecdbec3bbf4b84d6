"""Who was let in of late."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.recent import REMEMBERED, Recent


def test_only_the_last_ones_are_remembered() -> None:
    recent = Recent()
    for name in ("before", *["since"] * REMEMBERED):
        recent.add(name)
    assert recent._counts == {"since": REMEMBERED}


@given(st.lists(st.sampled_from("abcdefg"), max_size=3 * REMEMBERED), st.sampled_from("abcxyz"))
def test_a_tenant_has_had_less_if_an_even_share_of_the_last_ones_is_more(
    seen: list[str], tenant: str
) -> None:
    recent = Recent()
    for name in seen:
        recent.add(name)
    last = seen[-REMEMBERED:]
    share = len(last) / len({*last, tenant})
    assert recent.had_less(tenant) == (last.count(tenant) < share)
