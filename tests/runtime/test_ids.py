"""Ids that nobody can guess."""

from itertools import islice, pairwise

from penstock.runtime.ids import AT_ONCE, random_ids

MANY = 4 * AT_ONCE


def test_each_id_has_128_bits_and_none_comes_twice() -> None:
    ids = list(islice(random_ids(), MANY))
    assert {len(bytes.fromhex(each)) for each in ids} == {16}
    assert len(set(ids)) == MANY


def test_what_two_ids_have_in_common_is_chance() -> None:
    """Of 128 bits about 64 differ; fewer than 16 would not happen in the life of the universe."""
    ids = [int(each, 16) for each in islice(random_ids(), MANY)]
    assert min((a ^ b).bit_count() for a, b in pairwise(ids)) >= 16
