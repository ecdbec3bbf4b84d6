"""Makes the inputs of a call: row by row, of all its tensors. The door for inference calls it with the tensors
of a request (`infer.py`).

    one tensor              each row is an input
    several                 each input is an object with a row of each, by its name

    a row of                is, for a function        for any other model
    BYTES, one element      a text, or bytes          a text
    BYTES, several          a list of these           a list of texts
    numbers [n]             a number                  a number
    numbers [n, …]          a tensor (`tensors.py`)   nested lists

Elements are texts, unless the tensor says otherwise in `content_type`: `str`, `json` or `bytes`. If it says
nothing, a tensor whose elements are not all UTF-8 is one of bytes.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import msgspec

from penstock.doors.inputs import Inputs
from penstock.doors.open_inference.numbers import as_json
from penstock.doors.open_inference.tensor import AT_ONCE, BYTES, Tensor
from penstock.doors.steps import Steps
from penstock.errors import Unacceptable
from penstock.payload import of_bytes, of_packed
from penstock.tensors import DATATYPES, packed

TEXT, JSON, OCTETS = "str", "json", "bytes"
CONTENT_TYPES = (TEXT, JSON, OCTETS)
# Lists that a row of numbers may become in JSON: so many, or so many for each number.
MOST_LISTS = 16 * 1024
LISTS_OF_A_NUMBER = 2

_from_json = msgspec.json.Decoder().decode


class Row(NamedTuple):
    """One row of numbers, for a function."""

    letter: str
    shape: Sequence[int]
    data: "bytes | memoryview"

    def packed(self) -> bytes:
        return packed(self.letter, self.shape, self.data)


# A row: checked JSON, bytes, several of bytes, or numbers.
Cell = msgspec.Raw | bytes | list[bytes] | Row


class Rows:
    """Makes inputs for one model."""

    def __init__(self, inputs: Inputs, model: str, *, kind: str, takes_bytes: bool) -> None:
        self._inputs = inputs
        self._model = model
        self._text_only = kind == "text"
        self._takes_bytes = takes_bytes

    def inputs_of(self, tensors: Sequence[tuple[Tensor, str]]) -> Steps[list[bytes]]:
        """Returns an input for each row. `tensors`: each with its content type, which may be empty."""
        if len(tensors) > 1 and self._text_only:
            raise Unacceptable(f"this model takes text: send one input and not {len(tensors)}")
        columns = []
        for tensor, content_type in tensors:
            columns.append((yield from self._cells(tensor, content_type)))
        if len(columns) == 1:
            return [_payload(cell) for cell in columns[0]]
        names = [tensor.name for tensor, _ in tensors]
        objects = []
        for cells in zip(*columns, strict=True):
            objects.append(_object(dict(zip(names, cells, strict=True))))
            yield
        return objects

    def _cells(self, tensor: Tensor, content_type: str) -> Steps[Sequence[Cell]]:
        if tensor.datatype == BYTES:
            return (yield from self._of_elements(tensor, content_type))
        if self._text_only:
            raise Unacceptable(f"this model takes text: send the input as {BYTES} and not {tensor.datatype}")
        return (yield from self._of_numbers(tensor))

    # ---- numbers -------------------------------------------------------------------------------------------

    def _of_numbers(self, tensor: Tensor) -> Steps[Sequence[Cell]]:
        letter, shape, data = DATATYPES[tensor.datatype].letter, tensor.shape[1:], tensor.data
        assert isinstance(data, bytes | memoryview)
        rows, whole = tensor.shape[0], memoryview(data)
        size = len(whole) // rows if rows else 0
        cells = list[Cell]()
        if not (shape and self._takes_bytes):
            _check_lists(tensor.name, shape)
            # Of what is written here only the depth is not known to be harmless.
            deep = b"[" * len(shape) + b"0" + b"]" * len(shape)
            yield from self._inputs.check_in_steps(deep, self._model, ascii_only=True)
        for at in range(rows):
            row = whole[at * size : (at + 1) * size]
            if shape and self._takes_bytes:
                cells.append(Row(letter, shape, row))
                continue
            try:
                cells.append(msgspec.Raw((yield from as_json(letter, shape, row))))
            except ValueError:
                raise Unacceptable(
                    f"a value of the input {tensor.name[:50]!r} is infinite or not a number, which JSON cannot"
                    " say, and this model takes JSON"
                ) from None
            yield
        return cells

    # ---- elements of BYTES ---------------------------------------------------------------------------------

    def _of_elements(self, tensor: Tensor, content_type: str) -> Steps[Sequence[Cell]]:
        elements = tensor.data
        assert isinstance(elements, list)
        width = prod(tensor.shape[1:])
        if width > 1 and self._text_only:
            raise Unacceptable(
                f"this model takes text: the shape of the input {tensor.name[:50]!r} must be [n] or [n, 1]"
            )
        octets = content_type == OCTETS
        if not content_type:
            octets = not (yield from _are_texts(elements))
        if octets:
            if not self._takes_bytes:
                raise Unacceptable(
                    f"an element of the input {tensor.name[:50]!r} is not text in UTF-8, and this model takes no"
                    " bytes"
                )
            return elements if width == 1 else (yield from _grouped(elements, width, list))
        texts = list[msgspec.Raw]()
        for element in elements:
            texts.append((yield from self._text(element, tensor.name, is_json=content_type == JSON)))
            if not len(texts) % AT_ONCE:
                yield
        if width == 1:
            return texts
        return (yield from _grouped(texts, width, _listed))

    def _text(self, element: bytes, name: str, *, is_json: bool) -> Steps[msgspec.Raw]:
        """Returns an element as checked JSON."""
        try:
            if is_json:
                element.decode()
                said = bytes(msgspec.json.decode(element, type=msgspec.Raw))
            else:
                said = msgspec.json.encode(element.decode())
        except (msgspec.MsgspecError, RecursionError):
            raise Unacceptable(f"an element of the input {name[:50]!r} is not JSON") from None
        except UnicodeDecodeError:
            raise Unacceptable(f"an element of the input {name[:50]!r} is not text in UTF-8") from None
        ascii_only = said.isascii()
        return msgspec.Raw((yield from self._inputs.check_in_steps(said, self._model, ascii_only=ascii_only)))


def _check_lists(name: str, shape: Sequence[int]) -> None:
    """Refuse a shape whose lists would be far longer in JSON than the numbers in them."""
    lists, number = 0, 1
    for size in shape:
        lists += number
        number *= size
    if lists > max(LISTS_OF_A_NUMBER * number, MOST_LISTS):
        raise Unacceptable(
            f"the shape of the input {name[:50]!r} has too many dimensions of 1 behind a large one, for a model"
            " that takes JSON"
        )


def _are_texts(elements: Sequence[bytes]) -> Steps[bool]:
    try:
        for at in range(0, len(elements), AT_ONCE):
            for element in elements[at : at + AT_ONCE]:
                element.decode()
            yield
    except UnicodeDecodeError:
        return False
    return True


def _grouped(elements: Sequence[Any], width: int, make: Callable[[Sequence[Any]], Any]) -> Steps[list[Any]]:
    """Returns what is made of each `width` elements."""
    groups = []
    for at in range(0, len(elements), width):
        groups.append(make(elements[at : at + width]))
        if not len(groups) % AT_ONCE or width > AT_ONCE:
            yield
    return groups


def _listed(texts: Sequence[msgspec.Raw]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(texts))


def _payload(cell: Cell) -> bytes:
    match cell:
        case msgspec.Raw():
            return bytes(cell)
        case bytes():
            return of_bytes(cell)
        case Row():
            return of_packed(cell.packed())
    return of_packed(msgspec.msgpack.encode(cell))


def _object(cells: "dict[str, Cell]") -> bytes:
    if all(isinstance(cell, msgspec.Raw) for cell in cells.values()):
        return msgspec.json.encode(cells)
    return of_packed(msgspec.msgpack.encode({name: _packable(cell) for name, cell in cells.items()}))


def _packable(cell: Cell) -> object:
    if isinstance(cell, msgspec.Raw):
        return _from_json(cell)
    return msgspec.Raw(cell.packed()) if isinstance(cell, Row) else cell
