"""Which shards to take and to give back, without any Redis."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.shard_plan import even_part, own_part, plan, shards_at_home

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


# ---- zones ----------------------------------------------------------------------------

ZONES = st.sets(st.sampled_from(["", "eu-1a", "eu-1b", "eu-1c", "us"]), min_size=1)


@given(st.integers(1, 64), ZONES)
def test_every_shard_is_at_home_in_one_zone_and_each_zone_has_as_many(shards: int, zones: set[str]) -> None:
    if shards < len(zones):
        return
    homes = [set(shards_at_home(shards, zones, zone)) for zone in zones]
    assert set().union(*homes) == set(range(shards))
    assert sum(map(len, homes)) == shards
    assert max(map(len, homes)) - min(map(len, homes)) <= 1


@given(ZONES, st.sampled_from(["", "eu-1a", "elsewhere"]))
def test_a_zone_without_a_batcher_has_all_shards(zones: set[str], zone: str) -> None:
    home = set(shards_at_home(16, zones - {zone}, zone))
    assert home == set(range(16))


def test_a_zone_for_which_no_shard_is_left_has_all() -> None:
    zones = {"a", "b", "c"}
    homes = [set(shards_at_home(2, zones, zone)) for zone in sorted(zones)]
    assert sorted(map(len, homes)) == [1, 1, 2]
    assert own_part(2, {"x", "y", "z"}, "z", {"x": "a", "y": "b", "z": "c"}.__getitem__) == 0


def test_when_a_zone_goes_most_shards_of_the_others_stay() -> None:
    before = {zone: set(shards_at_home(48, "abc", zone)) for zone in "abc"}
    for zone in "ab":
        assert len(before[zone] & set(shards_at_home(48, "ab", zone))) >= 12  # of 16


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from("xyz"), min_size=1, max_size=7),
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.sampled_from("xyz"), min_size=1, max_size=7),
)
def test_whichever_zones_come_and_go_each_shard_is_soon_held_in_its_own(
    before: dict[str, str], after: dict[str, str]
) -> None:
    after = {name: before.get(name, zone) for name, zone in after.items()}  # nobody moves
    zone_of = {**before, **after}.__getitem__
    held: dict[str, set[int]] = {name: set() for name in before}

    def step(members: dict[str, str]) -> bool:
        moved = False
        for name in sorted(members):
            mine = held.setdefault(name, set())
            others = set().union(*(held[other] for other in held if other != name))
            decided = plan(16, mine, others, members, name, (), zone_of)
            mine.difference_update(decided.give)
            mine.update(decided.take)
            moved |= bool(decided.take or decided.give)
        return moved

    for members in (before, after):
        for gone in held.keys() - members.keys():
            del held[gone]
        for _ in range(4):
            step(members)
        assert not step(members)
        assert set().union(*held.values()) == set(range(16))
        for name, zone in members.items():
            assert len(held[name]) == own_part(16, members, name, zone_of)
            assert held[name] <= set(shards_at_home(16, {*members.values()}, zone))
