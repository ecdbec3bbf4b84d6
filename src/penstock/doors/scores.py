"""Reads the scores in a model's output. The doors that rank and classify call it (`rerank.py`, `tei_rerank.py`,
`tei_predict.py`).

    0.98                                        one score
    [0.98]                                      likewise
    {"score": 0.98, "label": "yes"}             likewise, of a label; more fields may stand beside them
    [0.7, 0.2]                                  a score of each label
    [{"score": 0.7, "label": "joy"}, …]         likewise
    {"joy": 0.7, "anger": 0.2}                  likewise

A score without a label gets one by its place: LABEL_0, LABEL_1 and so on. Models of Hugging Face call labels that
have no names so too.
"""

from collections.abc import Sequence

import msgspec
from msgspec import UNSET, UnsetType

from penstock.output import without_note

NO_SCORE = "gives no score: its output is not one number, nor an object with a 'score'"
NO_LABELS = "gives no labels: its output holds no scores"


class Prediction(msgspec.Struct, forbid_unknown_fields=True):
    """A label and its score."""

    label: str
    score: float


class _Said(msgspec.Struct):
    """An object in an output; one without `score` is a score of each label."""

    score: float | UnsetType = UNSET
    label: str | int | float | None = None


_NUMBER = msgspec.json.Decoder(float)
_NUMBERS = msgspec.json.Decoder(list[float])
_SAID = msgspec.json.Decoder(_Said)
_SEVERAL = msgspec.json.Decoder(list[_Said])
_BY_LABEL = msgspec.json.Decoder(dict[str, float])


def predictions_of(output: bytes) -> list[Prediction] | None:
    """Returns the labels of an output with their scores, in its own order; None if it has none."""
    bare, _ = without_note(output)
    try:
        return _read(bare) or None
    except msgspec.MsgspecError:
        return None


def score_of(output: bytes) -> float | None:
    """Returns the only score of an output; None if it has none, or several."""
    predictions = predictions_of(output)
    return predictions[0].score if predictions is not None and len(predictions) == 1 else None


def _read(output: bytes) -> list[Prediction]:
    if output.startswith(b"{"):
        said = _SAID.decode(output)
        if said.score is UNSET:
            return [Prediction(label, score) for label, score in _BY_LABEL.decode(output).items()]
        return [_prediction(0, said)]
    if not output.startswith(b"["):
        return [_unnamed(0, _NUMBER.decode(output))]
    if output[1:].lstrip().startswith(b"{"):
        return [_prediction(place, said) for place, said in enumerate(_SEVERAL.decode(output))]
    return [_unnamed(place, score) for place, score in enumerate(_NUMBERS.decode(output))]


def _prediction(place: int, said: _Said) -> Prediction:
    if said.score is UNSET:
        raise msgspec.ValidationError("an object without a score")
    return _unnamed(place, said.score) if said.label is None else Prediction(str(said.label), said.score)


def _unnamed(place: int, score: float) -> Prediction:
    return Prediction(f"LABEL_{place}", score)


def best_first(scores: Sequence[float]) -> list[int]:
    """Returns the places of the scores, the highest first; of equal ones, the first."""
    return sorted(range(len(scores)), key=lambda place: -scores[place])
