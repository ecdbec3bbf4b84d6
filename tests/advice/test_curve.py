"""How long a batch takes, read from text and from what a server has learned."""

import pytest

from penstock.advice.curve import Learned, learned_curve, parse_curve
from penstock.errors import UserMistake

LEARNED = Learned(service_curve=[(0.9, 0.01), (7.6, 0.012), (60.0, 0.1)], max_batch=64)


@pytest.mark.parametrize(
    ("text", "times", "largest"),
    [
        ("100ms x 32", {1: 0.1, 32: 0.1}, 32),
        ("100 ms × 32", {1: 0.1, 32: 0.1}, 32),
        ("1=12ms,32=100ms", {1: 0.012, 32: 0.1}, 32),
        ("32=100ms, 1=12ms, 8=14ms", {1: 0.012, 8: 0.014, 20: 0.057, 32: 0.1}, 32),
        ("8=14ms x 16", {1: 0.014, 16: 0.014}, 16),
        ("1=10ms,2=12ms x 4", {1: 0.01, 4: 0.016}, 4),
        ("a=50ms,b=0.5ms x 100", {1: 0.0505, 100: 0.1}, 100),
    ],
)
def test_a_curve_is_read_with_its_largest_batch(text: str, times: dict[int, float], largest: int) -> None:
    curve = parse_curve(text)
    assert curve.max_batch == largest
    assert {size: curve.seconds(size) for size in times} == pytest.approx(times)


def test_max_batch_wins_over_what_the_curve_says() -> None:
    assert parse_curve("100ms x 32", 8).max_batch == 8
    assert parse_curve("1=12ms,32=100ms", 64).max_batch == 64
    assert parse_curve("100ms", 8).max_batch == 8


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("100ms", "does not say the largest batch"),
        ("100ms x 0", "does not say the largest batch"),
        ("0ms x 8", "longer than nothing"),
        ("fast x 8", "--curve: 'fast': a=fast is not a time"),
        ("1=12,32=100ms", "1=12 is not a time: 12 has no unit"),
        ("0=12ms,32=100ms", "0=12ms is not a batch size"),
        ("1=12ms,1=13ms", "1 is given twice"),
        ("1=12ms,a=13ms", "times by size say what a batch takes, and so does a"),
    ],
)
def test_a_mistake_names_the_option_and_what_to_write(text: str, says: str) -> None:
    with pytest.raises(UserMistake) as caught:
        parse_curve(text)
    assert "--curve" in caught.value.message
    assert says in caught.value.message


def test_what_a_server_has_learned_is_the_curve() -> None:
    curve = learned_curve({"it": LEARNED, "silent": Learned()}, None, "http://here")
    assert curve.max_batch == 64
    assert curve.service.points == ((1, 0.01), (8, 0.012), (60, 0.1))
    assert curve.source == "learned by http://here"


def test_batches_larger_than_any_that_was_run_are_not_planned_with() -> None:
    curve = learned_curve(
        {"it": Learned(service_curve=[(1.0, 0.0), (8.0, 0.02)], max_batch=64)}, "it", "there"
    )
    assert curve.max_batch == 8
    assert "no batch above 8 yet" in curve.source


def test_a_server_that_has_run_nothing_says_so_and_one_of_several_models_is_chosen() -> None:
    with pytest.raises(UserMistake, match="has not run a batch yet"):
        learned_curve({"it": Learned()}, None, "there")
    with pytest.raises(UserMistake, match="has not run a batch of other yet"):
        learned_curve({"it": LEARNED}, "other", "there")
    with pytest.raises(UserMistake, match="--model: it, that"):
        learned_curve({"that": LEARNED, "it": LEARNED}, None, "there")
    assert learned_curve({"that": LEARNED, "it": LEARNED}, "that", "there").max_batch == 64
