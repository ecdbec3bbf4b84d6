"""Where something is, is found at a glance or not at all; and nothing is where nothing looks like it."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.places import Place, Places, glance

# Some look alike, some are short, some differ in what is not the input.
INPUTS = [b"a" * 130 + b"%d" % number + b"z" * 70 for number in range(2)] + [b"", b"a", b"z" * 200]
PLACES: list[Place] = [
    (each, "model", tenant, b"", glance(each)) for each in INPUTS for tenant in ("", "acme")
]


def test_a_short_input_is_seen_as_a_whole_and_a_long_one_at_both_ends() -> None:
    assert glance(b"short") == b"shortshort"
    assert glance(INPUTS[0]) == glance(INPUTS[1]) == b"a" * 128 + b"z" * 64


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(PLACES), st.sampled_from(["one", "two"]))))
def test_a_place_is_its_owners_until_it_leaves_and_always_in_sight(
    steps: list[tuple[bool, Place, str]],
) -> None:
    places, owners = Places[str](), dict[Place, str]()
    for comes, place, owner in steps:
        if comes:
            places.put(place, owner)
            owners[place] = owner
        else:
            places.remove(place, owner)
            if owners.get(place) == owner:
                del owners[place]
        assert [places.get(each) for each in PLACES] == [owners.get(each) for each in PLACES]
        looks = [glance(place[0]) for place in owners]
        assert places.glances == {look: looks.count(look) for look in looks}
