"""Answers are given again while they are good and there is room; never longer, and never more of them."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.memory import OVERHEAD, Memory, Remembered


def answer(output: bytes = b"1", expires: float = 10.0) -> Remembered:
    return Remembered(output, "v1", b"", expires)


def key(number: int) -> bytes:
    return number.to_bytes(32, "big")


def test_an_answer_is_found_until_its_time_is_over() -> None:
    memory = Memory(10, 100_000)
    assert memory.put(key(1), answer(), 0.0)
    assert memory.get(key(1), 9.9) == answer()
    assert memory.get(key(2), 9.9) is None
    assert memory.get(key(1), 10.0) is None
    assert (len(memory), memory.bytes, memory.evicted) == (0, 0, 0)


def test_the_one_not_used_for_longest_makes_room() -> None:
    memory = Memory(2, 100_000)
    memory.put(key(1), answer(), 0.0)
    memory.put(key(2), answer(), 0.0)
    assert memory.get(key(1), 1.0) is not None
    memory.put(key(3), answer(), 1.0)
    assert [memory.get(key(n), 1.0) is not None for n in (1, 2, 3)] == [True, False, True]
    assert memory.evicted == 1


def test_what_was_over_anyway_does_not_count_as_evicted() -> None:
    memory = Memory(1, 100_000)
    memory.put(key(1), answer(expires=1.0), 0.0)
    memory.put(key(2), answer(), 2.0)
    assert (len(memory), memory.evicted) == (1, 0)


def test_bytes_are_bounded_and_one_large_output_does_not_push_out_all_others() -> None:
    memory = Memory(1000, 16 * 1000)
    assert not memory.put(key(0), answer(b"x" * 1000), 0.0)
    for number in range(100):
        memory.put(key(number), answer(b"x" * 500), 0.0)
    assert memory.bytes <= 16_000
    assert len(memory) == 16_000 // (500 + OVERHEAD)


def test_a_newer_answer_replaces_the_older() -> None:
    memory = Memory(10, 100_000)
    memory.put(key(1), answer(b"old"), 0.0)
    memory.put(key(1), answer(b"newer"), 0.0)
    found = memory.get(key(1), 0.0)
    assert found is not None
    assert (found.output, len(memory), memory.bytes) == (b"newer", 1, OVERHEAD + 5)


@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 700), st.integers(1, 20)), max_size=80
    )
)
def test_whatever_is_put_and_got_the_books_are_true(steps: list[tuple[bool, int, int, int]]) -> None:
    memory = Memory(8, 16 * 1000)
    model: dict[bytes, Remembered] = {}
    for now, (puts, number, size, ttl) in enumerate(steps):
        if puts:
            entry = answer(b"x" * size, now + float(ttl))
            if memory.put(key(number), entry, now):
                model[key(number)] = entry
        else:
            found = memory.get(key(number), now)
            if found is not None:
                assert found == model[key(number)]
                assert found.expires > now
        assert len(memory) <= 8
        assert memory.bytes <= 16_000
    left = [entry for fingerprint in model if (entry := memory.get(fingerprint, 0.0)) is not None]
    assert memory.bytes == sum(OVERHEAD + len(entry.output) for entry in left)
