"""Tensors are read and written in steps, and each handles few numbers; only what a function gets as it came is
handled at once."""

import json
import struct
from collections.abc import Generator
from math import prod
from typing import Any, cast

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.door import Inside, Letter
from penstock.doors.grpc.inference import ModelInfer
from penstock.doors.inputs import inputs_of
from penstock.doors.large import LARGE
from penstock.doors.open_inference import numbers, tensor
from penstock.doors.open_inference.infer import HEADER, Infer, VersionInfer
from penstock.doors.open_inference.rows import Rows
from penstock.doors.steps import at_once
from penstock.doors.wishes import Media
from penstock.errors import NoSuchModel, Unacceptable
from penstock.ports import Gateway
from penstock.tensors import numbers_of

SHAPES = st.lists(st.integers(1, 5), min_size=1, max_size=4)
MIB = 2**20


class TwoModels:
    """A gateway with a function, which takes bytes, and an endpoint, which takes JSON."""

    def kind_of(self, model: str | None) -> str:
        if model not in ("function", "endpoint"):
            raise NoSuchModel(f"no model {model!r}")
        return "json"

    def takes_bytes(self, model: str | None) -> bool:
        self.kind_of(model)
        return model == "function"


INSIDE = Inside(cast(Gateway, TwoModels()))


# ---- numbers to JSON, and back -----------------------------------------------------------------------------


@given(SHAPES, st.integers(1, 10))
def test_numbers_are_written_as_their_lists_however_few_at_a_time(shape: list[int], few: int) -> None:
    array = numpy.arange(prod(shape), dtype="<i4").reshape(shape)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "AT_ONCE", few)
        assert json.loads(at_once(numbers.as_json("i", shape, array.tobytes()))) == array.tolist()


@given(SHAPES, st.integers(1, 10), st.booleans(), st.sampled_from([None, 2]))
def test_numbers_are_read_from_their_lists_however_few_at_a_time(
    shape: list[int], few: int, flat: bool, indent: int | None
) -> None:
    array = numpy.arange(prod(shape), dtype="<f4").reshape(shape) - 1.5
    said = json.dumps((array.ravel() if flat else array).tolist(), indent=indent).encode()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "PIECE", few)
        assert at_once(numbers.spelt_out("a", "FP32", shape, said)) == array.tobytes()


@pytest.mark.parametrize(
    ("said", "shape", "words"),
    [
        ("5", [1], "must be a list"),
        ("{}", [1], "must be a list"),
        ("[1, 2]", [3], "has 2 values"),
        ("[]", [1], "has 0 values"),
        ("[1]", [0], "has 1 values"),
        ("[[1], [2, 3]]", [2, 2], "rows"),
        ("[[1], 2]", [2, 1], "rows"),
        ("[[[1]]]", [1, 1], "rows"),
        ("[[], [1]]", [2, 1], "no INT32"),
        ('["1"]', [1], "no INT32"),
        ("[null]", [1], "no INT32"),
        ('[{"a": 1}]', [1], "no INT32"),
        ("[1.5]", [1], "no INT32"),
        ("[true]", [1], "no INT32"),
        ("[3000000000]", [1], "too large"),
        ("[1]", [2**31 - 1] * 16, "has 1 values"),
    ],
)
@pytest.mark.parametrize("few", [1, 100])
def test_what_is_no_tensor_is_refused(said: str, shape: list[int], words: str, few: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numbers, "PIECE", few)
        with pytest.raises(Unacceptable, match=words):
            at_once(numbers.spelt_out("a", "INT32", shape, said.encode()))


@pytest.mark.parametrize("at", [0, 1, 2, 3, 4])
def test_a_value_that_is_missing_is_missed_wherever_the_list_is_cut(at: int) -> None:
    """Within rows of one value, none of them looks the same as one."""
    said = ("[" + ",".join("[]" if each == at else "[7]" for each in range(5)) + "]").encode()
    for few in range(1, len(said)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(numbers, "PIECE", few)
            with pytest.raises(Unacceptable):
                at_once(numbers.spelt_out("a", "INT32", [5, 1], said))


# ---- steps -------------------------------------------------------------------------------------------------


def read_for(model: str, made: Generator[None, None, tensor.Tensor]) -> Any:
    """The steps in which a tensor becomes the inputs of a model."""
    gateway = TwoModels()
    maker = Rows(inputs_of(INSIDE), model, kind="json", takes_bytes=gateway.takes_bytes(model))
    read = yield from made
    return (yield from maker.inputs_of([(read, "")]))


@pytest.mark.parametrize(
    "shape", [[1, MIB], [1, MIB, 1], [1, 1, MIB], [1, 1024, 1024], [1, 2, MIB // 2], [1024, 1024]]
)
def test_no_step_writes_more_than_a_few_numbers(shape: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    written = 0
    original = numbers_of

    def noted(letter: str, data: bytes) -> list[Any]:
        nonlocal written
        written += len(data)
        return original(letter, data)

    monkeypatch.setattr(numbers, "numbers_of", noted)
    said = memoryview(b"\xd5" * MIB)
    most = 0
    for _ in read_for("endpoint", tensor.binary("a", "INT8", shape, said)):
        most, written = max(most, written), 0
    assert 0 < most <= numbers.AT_ONCE


@pytest.mark.parametrize("rows", [b"[[" + b"[1]," * 200_000 + b"[1]]]", b"[" + b"1," * 200_000 + b"1]"])
def test_no_step_reads_more_than_a_few_numbers(rows: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0
    original = numbers.as_bytes

    def noted(name: str, datatype: str, values: list[Any]) -> bytes:
        nonlocal read
        read += len(values)
        return original(name, datatype, values)

    monkeypatch.setattr(numbers, "as_bytes", noted)
    most = 0
    for _ in read_for("function", tensor.spelt_out("a", "INT8", [1, 200_001, 1], rows)):
        most, read = max(most, read), 0
    assert 0 < most <= numbers.PIECE


# ---- what is handled at once -------------------------------------------------------------------------------


def letter(model: str, datatype: str, shape: list[int], data: bytes, *, version: str = "") -> Letter:
    said = f"""{{"inputs": [{{"name": "a", "shape": {shape}, "datatype": "{datatype}", "parameters":
        {{"binary_data_size": {len(data)}}}}}]}}""".encode()
    path = f"/v2/models/{model}{version}/infer"
    return Letter(said + data, {HEADER: str(len(said)).encode()}, Media.OCTETS, path)


IMAGE = (MIB // 4, struct.pack("<f", 0.5) * (MIB // 4))


def test_numbers_in_binary_for_a_function_are_handled_at_once() -> None:
    assert Infer(INSIDE).is_quick(letter("function", "FP32", [1, IMAGE[0]], IMAGE[1]))
    assert VersionInfer(INSIDE).is_quick(
        letter("function", "FP32", [1, IMAGE[0]], IMAGE[1], version="/versions/1")
    )


def test_numbers_in_binary_for_a_model_that_takes_json_wait_for_their_turn() -> None:
    assert not Infer(INSIDE).is_quick(letter("endpoint", "FP32", [1, IMAGE[0]], IMAGE[1]))


@pytest.mark.parametrize("datatype", ["BYTES", "\\u0042YTES", "BYT\\u0045S"])
def test_elements_wait_for_their_turn_however_their_datatype_is_spelt(datatype: str) -> None:
    assert not Infer(INSIDE).is_quick(letter("function", datatype, [1, 10_000], b"\1\0\0\0a" * 10_000))


def test_many_rows_wait_for_their_turn() -> None:
    assert not Infer(INSIDE).is_quick(letter("function", "INT8", [LARGE, 2], bytes(2 * LARGE)))


def test_what_looks_like_a_plain_text_and_is_none_waits_for_its_turn() -> None:
    """Bytes between two that are quotes in JSON."""
    binary = b'"' + b"a" * MIB + b'"'
    assert not Infer(INSIDE).is_quick(letter("endpoint", "INT8", [1, len(binary)], binary))
    assert not ModelInfer(INSIDE).is_quick(Letter(binary, {}))
    assert not Infer(INSIDE).is_quick(
        Letter(b"[" + b"1," * MIB + b"1]", {}, Media.OCTETS, "/v2/models/function/infer")
    )


def test_few_rows_in_a_body_that_is_not_large_are_read_at_once_and_many_are_not() -> None:
    """Rows of many inputs: each is put together of a value of every input."""
    few, many = (
        [{"name": f"a{n}", "shape": [rows], "datatype": "INT8", "data": [1] * rows} for n in range(60)]
        for rows in (10, 200)
    )
    for inputs, quick in ((few, True), (many, False)):
        said = json.dumps({"inputs": inputs}, separators=(",", ":")).encode()
        assert len(said) < LARGE
        assert Infer(INSIDE).is_quick(Letter(said, {}, Media.JSON, "/v2/models/function/infer")) is quick
        message = ModelInfer.request(
            inputs=[{"name": each["name"], "shape": each["shape"]} for each in inputs]
        )
        assert ModelInfer(INSIDE).is_quick(Letter(message.SerializeToString(), {})) is quick


@pytest.mark.parametrize(
    ("shape", "fits"),
    [
        ([1, 2**18, 1], True),
        ([1, 1, 1, 1, 1, 2**18], True),
        ([1, 2**18, 1, 1, 1], False),
        ([1, 100, 1, 1, 1, 1, 1], True),
    ],
)
def test_lists_of_one_number_are_few(shape: list[int], fits: bool) -> None:
    """In JSON they would be many times as long as what was sent."""
    steps = read_for("endpoint", tensor.binary("a", "INT8", shape, memoryview(bytes(prod(shape)))))
    if fits:
        assert len(at_once(steps)) == 1
    else:
        with pytest.raises(Unacceptable, match="dimensions of 1"):
            at_once(steps)


@pytest.mark.parametrize(
    ("datatype", "field", "value"),
    [
        ("INT32", "int_contents", 7),
        ("FP32", "fp32_contents", 0.5),
        ("BYTES", "bytes_contents", b"a"),
        ("BOOL", "bool_contents", True),
    ],
)
def test_values_that_are_spelt_out_over_grpc_are_read_in_steps(datatype: str, field: str, value: Any) -> None:
    count = 50_000
    said = ModelInfer.request(model_name="function")
    given = said.inputs.add(name="a", datatype=datatype, shape=[1, count])
    getattr(given.contents, field).extend([value] * count)
    walk = ModelInfer(INSIDE).read(said.SerializeToString(), {})
    assert sum(1 for _ in walk) >= count // numbers.AT_ONCE
