"""Answers are given again while they are good and there is room; never longer, and never more of them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.places import Place
from penstock.core.remembered_answers import OVERHEAD, RememberedAnswers

IN_FLIGHT = object()


def place(number: int) -> Place:
    return b"%d" % number, "model\0v1", "", b"", b"looks"


def put(
    memory: RememberedAnswers[object], number: int, *, size: int = 1, expires: float = 10.0, now: float = 0.0
) -> bool:
    return memory.put(place(number), b"x" * size, "v1", "", expires, now)


def kept(memory: RememberedAnswers[object]) -> set[int]:
    return {int(each[0]) for each, found in memory.places.taken.items() if isinstance(found, tuple)}


def test_an_answer_takes_the_place_of_what_was_under_way_for_it() -> None:
    memory = RememberedAnswers[object](10, 100_000)
    memory.places.put(place(1), IN_FLIGHT)
    assert put(memory, 1)
    assert memory.places.get(place(1)) == (b"x", "v1", "", 10.0, place(1))


def test_the_oldest_makes_room_unless_it_was_asked_for() -> None:
    memory = RememberedAnswers[object](2, 100_000)
    put(memory, 1)
    put(memory, 2)
    memory.used.add(place(1))
    put(memory, 3)
    assert (kept(memory), memory.evicted, memory.used) == ({1, 3}, 1, set())
    put(memory, 4)  # it had its turn
    put(memory, 5)
    assert kept(memory) == {4, 5}


def test_what_is_over_goes_first_and_does_not_count_as_evicted() -> None:
    memory = RememberedAnswers[object](10, 100_000)
    put(memory, 1, expires=1.0)
    memory.used.add(place(1))
    put(memory, 2, now=2.0)
    assert (kept(memory), memory.evicted, memory.used) == ({2}, 0, set())
    assert memory.bytes == OVERHEAD + 2


def test_bytes_are_bounded_and_one_large_answer_does_not_push_out_all_others() -> None:
    memory = RememberedAnswers[object](1000, 16 * (OVERHEAD + 500))
    assert not put(memory, 0, size=1000)
    for number in range(10, 99):
        put(memory, number, size=498)
    assert (memory.bytes, len(kept(memory))) == (16 * (OVERHEAD + 500), 16)


def test_a_newer_answer_outlives_the_older_in_the_same_place_and_so_does_what_is_under_way() -> None:
    memory = RememberedAnswers[object](2, 100_000)
    put(memory, 1)
    put(memory, 1, size=5)
    put(memory, 2)
    assert kept(memory) == {1, 2}  # the first to go was the older one
    memory.places.put(place(1), IN_FLIGHT)
    put(memory, 3)
    assert memory.places.get(place(1)) is IN_FLIGHT
    memory.places.remove(place(1), IN_FLIGHT)
    put(memory, 4)
    assert (kept(memory), memory.bytes) == ({3, 4}, 2 * (OVERHEAD + 2))
    memory.forget(memory.places.get(place(3)))  # type: ignore[arg-type]
    put(memory, 5)
    put(memory, 6)
    assert (kept(memory), memory.evicted) == ({5, 6}, 2)


STEPS = st.tuples(st.sampled_from("pgf"), st.integers(0, 12), st.integers(0, 700), st.integers(1, 20))


@given(st.lists(STEPS, max_size=80))
def test_whatever_happens_the_books_are_true(steps: list[tuple[str, int, int, int]]) -> None:
    memory = RememberedAnswers[object](8, 16 * (OVERHEAD + 1000))
    for now, (what, number, size, ttl) in enumerate(steps):
        found = memory.places.get(place(number))
        if what == "p":
            put(memory, number, size=size, expires=now + float(ttl), now=now)
        elif what == "f":
            if isinstance(found, tuple):
                memory.forget(found)
            memory.places.put(place(number), IN_FLIGHT)
        elif isinstance(found, tuple):
            memory.used.add(place(number))
        assert len(kept(memory)) <= 8
        assert memory.bytes <= 16 * (OVERHEAD + 1000)
        assert memory.used <= {place(number) for number in kept(memory)}
    for number in range(100, 108):  # everything of before has gone
        put(memory, number, expires=1000.0, now=900.0)
    assert memory.bytes == 8 * (OVERHEAD + 4)
