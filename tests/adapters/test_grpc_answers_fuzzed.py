"""Whatever an endpoint sends: n outputs that are JSON, or a rejected batch; never another error."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.backends.oip.answer import AnswerReader
from penstock.adapters.backends.oip.messages import ModelInferResponse
from penstock.errors import BatchRejected

DATATYPES = ["BYTES", "BOOL", "INT8", "INT64", "UINT8", "UINT64", "FP16", "FP32", "FP64", "BF16", ""]
sizes = st.lists(st.integers(-1, 4) | st.integers(-(2**63), 2**63 - 1), max_size=4)
contents = st.fixed_dictionaries(
    {},
    optional={
        "bytes_contents": st.lists(
            st.binary(max_size=6) | st.sampled_from([b"1", b'{"a": 1}', b"[]"]), max_size=4
        ),
        "fp32_contents": st.lists(st.floats(width=32), max_size=8),
        "fp64_contents": st.lists(st.floats(), max_size=8),
        "int_contents": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=8),
        "int64_contents": st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8),
        "bool_contents": st.lists(st.booleans(), max_size=8),
    },
)
tensors = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b"]),
        "datatype": st.sampled_from(DATATYPES),
        "shape": sizes,
        "contents": contents,
    }
)
responses = st.builds(
    ModelInferResponse,
    id=st.sampled_from(["", "17", "16"]),
    outputs=st.lists(tensors, max_size=2),
    raw_output_contents=st.lists(st.binary(max_size=40), max_size=2),
)
readers = st.builds(
    AnswerReader,
    tensor_name=st.sampled_from(["", "a"]),
    output_kind=st.sampled_from(["auto", "text", "json"]),
)


def check(reader: AnswerReader, content: bytes, expected: int) -> None:
    try:
        outputs = reader.read(content, "17", expected).outputs
    except BatchRejected:
        return
    assert len(outputs) == expected
    for output in outputs:
        value = json.loads(
            output.decode(), parse_constant=lambda word: 1 / 0
        )  # NaN and Infinity are not JSON
        assert isinstance(value, str) or reader.output_kind != "text"


@given(readers, responses, st.integers(1, 4))
def test_any_response_is_n_outputs_or_a_rejected_batch(
    reader: AnswerReader, response: Any, expected: int
) -> None:
    check(reader, response.SerializeToString(), expected)


@given(readers, st.binary(max_size=200), st.integers(1, 4))
def test_any_bytes_are_n_outputs_or_a_rejected_batch(
    reader: AnswerReader, content: bytes, expected: int
) -> None:
    check(reader, content, expected)
