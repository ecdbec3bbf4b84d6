"""Which shards to take and to give back, without any Redis."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.shard_plan import even_part, plan

NAMES = st.sets(st.text("abc", min_size=1, max_size=4), min_size=1, max_size=9)


@given(st.integers(1, 64), NAMES)
def test_the_parts_of_all_batchers_are_all_shards_and_differ_by_one_at_most(
    shards: int, names: set[str]
) -> None:
    parts = [even_part(shards, names, name) for name in names]
    assert sum(parts) == shards
    assert max(parts) - min(parts) <= 1


def test_a_batcher_that_nobody_sees_yet_counts_itself() -> None:
    assert even_part(16, {"b"}, "a") == 8
    assert even_part(16, set(), "a") == 16


def test_free_shards_are_taken_up_to_the_even_part_and_never_anothers() -> None:
    decided = plan(16, mine={0}, others={1, 2, 3}, batchers={"a", "b"}, me="a")
    assert len(decided.take) == 7
    assert not {0, 1, 2, 3} & set(decided.take)
    assert decided.give == []


def test_what_is_beyond_the_even_part_is_given_back() -> None:
    decided = plan(16, mine=range(16), others=(), batchers={"a", "b", "c"}, me="c")
    assert len(decided.give) == 11
    assert decided.take == []


def test_shards_held_before_an_outage_are_preferred() -> None:
    decided = plan(16, mine=(), others=(), batchers={"a", "b", "c", "d"}, me="a", former={3, 7, 9, 12})
    assert set(decided.take) == {3, 7, 9, 12}
    kept = plan(4, mine={0, 1, 2, 3}, others=(), batchers={"a", "b"}, me="a", former={1, 2})
    assert set(kept.give) == {0, 3}


@given(NAMES, NAMES)
def test_whoever_comes_and_goes_all_shards_are_soon_shared_fairly_and_then_nothing_moves(
    before: set[str], after: set[str]
) -> None:
    held: dict[str, set[int]] = {name: set() for name in before}

    def step(members: set[str]) -> bool:
        moved = False
        for name in sorted(members):
            mine = held.setdefault(name, set())
            others = set().union(*(held[other] for other in held if other != name))
            decided = plan(16, mine, others, members, name)
            assert not set(decided.take) & others
            mine.difference_update(decided.give)
            mine.update(decided.take)
            moved |= bool(decided.take or decided.give)
        return moved

    for members in (before, after):
        for gone in held.keys() - members:
            del held[gone]
        for _ in range(3):
            step(members)
        assert not step(members)
        assert set().union(*held.values()) == set(range(16))
        assert {name: len(shards) for name, shards in held.items()} == {
            name: even_part(16, members, name) for name in members
        }
