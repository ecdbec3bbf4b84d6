"""Reads what OpenAI's clients send as `input` or `prompt`: one text, several, or tokens in the place of texts. The
doors `embeddings.py` and `completions.py` call it.

    "a text"    ["a text", "another"]    [101, 2023, 102]    [[101, 2023], [101, 2064]]

Each text or list of tokens is a request of its own. Tokens reach the model as a list of numbers, and only models
that take any JSON take them.
"""

from collections.abc import Sequence

import msgspec

from penstock.doors.door import Inside
from penstock.doors.inputs import inputs_of
from penstock.doors.openapi_parts import Part, input_schema
from penstock.doors.steps import Steps
from penstock.errors import Unacceptable

_EACH = msgspec.json.Decoder(list[msgspec.Raw])
_TOKENS = msgspec.json.Decoder(list[int | float])
_LARGEST_TOKEN = 2**53


class TextsOrTokens:
    """Reads one field of such a body."""

    def __init__(self, inside: Inside, field: str) -> None:
        self._inside = inside
        self._field = field
        self._inputs = inputs_of(inside)

    def read(self, said: bytes, model: str | None, *, ascii_only: bool) -> Steps[Sequence[bytes]]:
        """Returns the inputs, checked. `ascii_only`: whether the body that they are from is all ASCII."""
        inputs = self._apart(said)
        takes_tokens = self._inside.gateway.kind_of(model) != "text"
        checked = []
        for each in inputs:
            yield
            if each.startswith(b'"'):
                each = yield from self._inputs.check_in_steps(each, model, ascii_only=ascii_only)
            elif not takes_tokens:
                raise Unacceptable(f"'{self._field}' must be text: this model takes no tokens")
            checked.append(each)
        return checked

    def _apart(self, said: bytes) -> Sequence[bytes]:
        if said.startswith(b'"'):
            return [said]
        if not said.startswith(b"["):
            raise self._refusal()
        first = said[1:].lstrip()[:1]
        if first.isdigit() or first == b"-":
            return [self._tokens(said)]
        each = [bytes(one) for one in _EACH.decode(said)]
        self._inside.check_number(len(each))
        if first == b"[":
            return [self._tokens(one) for one in each]
        if not all(one.startswith(b'"') for one in each):
            raise self._refusal()
        return each

    def _tokens(self, said: bytes) -> bytes:
        try:
            tokens = _TOKENS.decode(said)
        except msgspec.MsgspecError:
            raise self._refusal() from None
        if not tokens or min(tokens) < 0 or max(tokens) > _LARGEST_TOKEN or any(each % 1 for each in tokens):
            raise self._refusal()
        return msgspec.json.encode([int(each) for each in tokens])  # JSON has one kind of number: 1.0 is 1

    def _refusal(self) -> Unacceptable:
        return Unacceptable(
            f"'{self._field}' must be a text, a list of texts, or tokens in the place of texts"
        )


def schema(kind: str, clean: bool, most: int) -> Part:
    """Returns the schema of such a field. `kind`: what the model takes; `most`: inputs of one call."""
    text = input_schema("text", clean)
    forms = [text, _several(text, most)]
    if kind != "text":
        token = {"type": "integer", "minimum": 0, "maximum": _LARGEST_TOKEN}
        tokens: Part = {"type": "array", "items": token, "minItems": 1}
        forms += [tokens, _several(tokens, most)]
    return {"anyOf": forms}


def _several(one: Part, most: int) -> Part:
    return {"type": "array", "items": one, "minItems": 1, "description": f"At most {most}."}
