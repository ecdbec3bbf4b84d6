"""What is a score, in the outputs of models."""

import pytest

from penstock.doors.scores import Prediction, best_first, predictions_of, score_of
from penstock.output import with_note


@pytest.mark.parametrize(
    ("output", "score"),
    [
        (b"0.98", 0.98),
        (b"-11", -11.0),
        (b"1e-7", 1e-7),
        (b"[0.98]", 0.98),
        (b'{"score": 0.98}', 0.98),
        (b'{"label": "yes", "score": 0.98, "because": [1]}', 0.98),
        (b'{"label": null, "score": 0.98}', 0.98),
        (b'[ {"label": 1, "score": 0.98} ]', 0.98),
        (b'{"relevance": 0.98}', 0.98),
        (with_note(b"0.98", 7), 0.98),
    ],
)
def test_an_output_with_one_number_is_a_score(output: bytes, score: float) -> None:
    assert score_of(output) == score


@pytest.mark.parametrize(
    "output",
    [
        b'"0.98"', b"true", b"null", b"[]", b"{}", b"[[0.98]]", b"[true]", b'{"score": "high"}', b'{"score": null}',
        b'{"label": "yes"}', b'{"joy": 0.1, "why": "so"}', b'[{"label": "yes"}]', b'[{"score": 1}, 2]', b"1e999",
        b"\x00\x01\x02\x1e\x1e",
    ],
)  # fmt: skip
def test_an_output_without_numbers_is_none(output: bytes) -> None:
    assert score_of(output) is None
    assert predictions_of(output) is None


@pytest.mark.parametrize(
    "output", [b"[0.7, 0.2]", b'[{"score": 1}, {"score": 2}]', b'{"joy": 0.7, "anger": 0.2}']
)
def test_several_numbers_are_no_score(output: bytes) -> None:
    assert score_of(output) is None


@pytest.mark.parametrize(
    ("output", "labels"),
    [
        (b"0.9", [("LABEL_0", 0.9)]),
        (b"[0.7, 0.2]", [("LABEL_0", 0.7), ("LABEL_1", 0.2)]),
        (b'[{"label": "joy", "score": 0.7}, {"score": 0.2}]', [("joy", 0.7), ("LABEL_1", 0.2)]),
        (b'{"label": 3, "score": 0.7}', [("3", 0.7)]),
        (b'{"joy": 0.7, "label": 0.2}', [("joy", 0.7), ("label", 0.2)]),
        (with_note(b'{"joy": 1}', 7), [("joy", 1.0)]),
    ],
)
def test_labels_have_their_names_or_one_by_their_place(
    output: bytes, labels: list[tuple[str, float]]
) -> None:
    assert predictions_of(output) == [Prediction(*each) for each in labels]


def test_the_highest_comes_first_and_of_equal_ones_the_first() -> None:
    assert best_first([0.1, 0.9, -3.0, 0.9, 0.1]) == [1, 3, 0, 4, 2]
