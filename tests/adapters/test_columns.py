"""Input tensors made of a batch, and outputs of output tensors."""

import json
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.backends.oip.columns import Column, Tensor, can_be_sent, columns_of
from penstock.adapters.backends.oip.rows import LETTERS, Given, outputs_of
from penstock.errors import BatchRejected
from penstock.tensors import DATATYPES


def column(datatype: str, row: tuple[int, ...], *values: Any) -> Column:
    [made] = columns_of([Tensor("x", datatype, row)], [json.dumps(value).encode() for value in values])
    return made


@pytest.mark.parametrize(
    ("datatype", "row", "values", "shape", "raw"),
    [
        ("FP32", (2,), [[1, 2.5], [3, 4]], [2, 2], struct.pack("<4f", 1, 2.5, 3, 4)),
        ("FP32", (-1,), [[1, 2, 3]], [1, 3], struct.pack("<3f", 1, 2, 3)),
        ("INT64", (1,), [5, 6], [2, 1], struct.pack("<2q", 5, 6)),
        ("INT32", (), [5, 6], [2], struct.pack("<2i", 5, 6)),
        ("BOOL", (), [True, False], [2], b"\x01\x00"),
        ("UINT8", (1, 2), [[[1, 2]], [[3, 4]]], [2, 1, 2], b"\x01\x02\x03\x04"),
        ("FP16", (), [0.5], [1], struct.pack("<e", 0.5)),
        ("BYTES", (), ["a", "bé"], [2], b"\x01\x00\x00\x00a\x03\x00\x00\x00b\xc3\xa9"),
        ("BYTES", (2,), [["a", {"k": 1}]], [1, 2], b'\x01\x00\x00\x00a\x07\x00\x00\x00{"k":1}'),
    ],
)
def test_each_input_is_a_row(
    datatype: str, row: tuple[int, ...], values: list[Any], shape: list[int], raw: bytes
) -> None:
    made = column(datatype, row, *values)
    assert (made.shape, made.raw()) == (shape, raw)


def test_of_several_tensors_each_input_has_a_row_of_each() -> None:
    tensors = [Tensor("ids", "INT64", (-1,)), Tensor("mask", "BOOL", (-1,))]
    rows = [b'{"mask":[true,false],"ids":[1,2]}', b'{"ids":[3,4],"mask":[true,true]}']
    ids, mask = columns_of(tensors, rows)
    assert (ids.name, ids.shape, list(ids.values)) == ("ids", [2, 2], [1, 2, 3, 4])
    assert (mask.name, mask.shape, list(mask.values)) == ("mask", [2, 2], [True, False, True, True])


@pytest.mark.parametrize(
    ("datatype", "row", "values"),
    [
        ("FP32", (2,), [[1, 2, 3]]),
        ("FP32", (2,), [[1, 2], [3]]),
        ("FP32", (2,), [5]),
        ("FP32", (), ["text"]),
        ("FP32", (), [None]),
        ("INT32", (), [1.5]),
        ("INT32", (), [2**31]),
        ("UINT8", (), [-1]),
        ("BOOL", (), [1]),
        ("FP32", (), [1e300]),
        ("BYTES", (), [["a", "b"]]),
        ("FP32", (-1, -1), [[1, 2]]),
        ("FP32", (-1,), [[[1]]]),
    ],
)
def test_an_input_that_is_no_row_is_refused(datatype: str, row: tuple[int, ...], values: list[Any]) -> None:
    with pytest.raises(BatchRejected):
        column(datatype, row, *values).raw()


@pytest.mark.parametrize("value", [b"1", b'{"a":1}', b'{"a":1,"b":2,"c":3}', b"[1,2]"])
def test_an_input_without_each_of_the_tensors_is_refused(value: bytes) -> None:
    with pytest.raises(BatchRejected, match="an object with a, b, and nothing else"):
        columns_of([Tensor("a", "INT32", ()), Tensor("b", "INT32", ())], [value])


def test_datatypes_are_known_by_the_letters_that_all_know() -> None:
    assert {name: DATATYPES[name].letter for name in LETTERS} == LETTERS
    assert [name for name in DATATYPES if not can_be_sent(Tensor("x", name, ()))] == ["BF16"]


@given(
    st.sampled_from(["INT32", "FP64", "UINT8"]),
    st.lists(st.integers(1, 3), max_size=3),
    st.integers(1, 4),
    st.randoms(use_true_random=False),
)
def test_what_goes_out_and_comes_back_is_the_same(
    datatype: str, row: list[int], count: int, random: Any
) -> None:
    def value(shape: list[int]) -> Any:
        if not shape:
            return random.randrange(200) if datatype != "FP64" else random.random()
        return [value(shape[1:]) for _ in range(shape[0])]

    values = [value(row) for _ in range(count)]
    made = column(datatype, tuple(row), *values)
    for tensor in (
        Given("y", datatype, made.shape, None, made.raw()),
        Given("y", datatype, made.shape, list(made.values), None),
    ):
        outputs = outputs_of([tensor], "", count, "auto", several=True)
        assert [json.loads(output) for output in outputs] == values


def test_several_outputs_become_objects() -> None:
    label = Given("label", "BYTES", [2], [b"cat", b"dog"], None)
    score = Given("score", "FP32", [2, 1], None, struct.pack("<2f", 0.5, 0.25))
    outputs = outputs_of([label, score], "", 2, "auto", several=True)
    assert outputs == [b'{"label":"cat","score":[0.5]}', b'{"label":"dog","score":[0.25]}']
    assert outputs_of([label, score], "score", 2, "auto", several=True) == [b"[0.5]", b"[0.25]"]
    with pytest.raises(BatchRejected, match="two outputs of one name"):
        outputs_of([label, label], "", 2, "auto", several=True)
