"""How a batch that failed is taken apart."""

from math import ceil, log2

from core_kit import ask
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.culprit import culprit, even_parts, halves
from penstock.core.queued import Queued

MEMBERS = st.lists(
    st.tuples(st.sampled_from(["", "ann", "bob", "cy"]), st.integers(0, 5)), min_size=2, max_size=64
)


def levels(requests: list[Queued], wanted: Queued) -> int:
    """How often a batch is halved until this one is alone."""
    count = 0
    while len(requests) > 1:
        requests = next(part for part in halves(requests) if wanted in part)
        count += 1
    return count


@settings(deadline=None, derandomize=True)
@given(MEMBERS)
def test_halves_hold_everybody_once_and_part_no_tenant_while_there_are_others(
    members: list[tuple[str, int]],
) -> None:
    requests = [ask(tenant=tenant, text=b'"%d"' % number) for tenant, number in members]
    one, other = halves(requests)
    assert one
    assert other
    assert sorted(r.key for r in [*one, *other]) == sorted(r.key for r in requests)
    if len({culprit(request) for request in requests}) > 1:
        assert not {culprit(request) for request in one} & {culprit(request) for request in other}


@settings(deadline=None, derandomize=True)
@given(MEMBERS)
def test_whoever_is_to_blame_is_alone_after_so_many_halvings(members: list[tuple[str, int]]) -> None:
    requests = [ask(tenant=tenant, text=b'"%d"' % number) for tenant, number in members]
    assert max(levels(requests, request) for request in requests) <= ceil(log2(len(requests))) + 2


def test_one_tenants_poison_is_out_of_the_way_with_the_first_halving() -> None:
    good, bad = [ask(tenant="good") for _ in range(60)], [ask(tenant="bad") for _ in range(4)]
    mixed = [request for pair in zip(good[:4], bad, strict=True) for request in pair] + good[4:]
    assert halves(mixed) == [bad, good]


def test_where_nobody_says_who_they_are_the_same_inputs_stay_together() -> None:
    good, bad = [ask(text=b'"%d"' % n) for n in range(6)], [ask(text=b'"bad"') for _ in range(6)]
    assert any(set(map(culprit, part)) >= {culprit(bad[0])} for part in halves([*good, *bad]))
    one, other = halves([*bad[:3], *good, *bad[3:]])
    assert not {culprit(bad[0])} <= set(map(culprit, one)) & set(map(culprit, other))


def test_without_others_the_cut_is_in_the_middle() -> None:
    requests = [ask(tenant="ann") for _ in range(7)]
    assert halves(requests) == [requests[:3], requests[3:]]
    assert even_parts(requests, 8) == [[request] for request in requests]
