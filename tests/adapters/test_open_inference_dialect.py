"""The Open Inference Protocol over HTTP: tensors in binary or in JSON, and what an endpoint may get wrong."""

import asyncio
import json
import struct
from typing import Any

import pytest
from aiohttp import web
from endpoint_kit import Page, endpoint
from http_kit import PATIENT, batch_of

from penstock.adapters.backends.dialects.open_inference import LENGTH, OpenInference
from penstock.adapters.backends.http import HttpBackend
from penstock.errors import BackendBusy, BackendError, BackendUnavailable, BatchRejected, UserMistake
from penstock.types import Batch, Result

TEXT = {"name": "text", "datatype": "BYTES", "shape": [-1]}
PAIR = [
    {"name": "ids", "datatype": "INT64", "shape": [-1, -1]},
    {"name": "scale", "datatype": "FP32", "shape": [-1, 1]},
]


def run(
    batch: Batch,
    infer: Page,
    *,
    inputs: Any = None,
    binary: bool = False,
    text: bool = True,
    query: str = "",
    **pages: Page,
) -> tuple[Result | BackendError, list[Any]]:
    described: dict[str, Page] = {
        "v2": lambda _: {"name": "x", "version": "1", "extensions": ["binary_tensor_data"] if binary else []},
        "m": lambda _: {"name": "m", "inputs": [TEXT] if inputs is None else inputs, "outputs": []},
        "3": lambda _: {"name": "m", "inputs": [TEXT] if inputs is None else inputs, "outputs": []},
        "ready": lambda _: {"name": "m", "ready": True},
        "infer": infer,
    }

    async def scene() -> tuple[Result | BackendError, list[Any]]:
        async with endpoint(**{**described, **pages}) as (url, posted):
            dialect = OpenInference(f"{url}/m{query}", "auto", text=text)
            backend = HttpBackend(dialect.url, None, dialect, **PATIENT)
            try:
                await backend.start()
                return await backend.run(batch), posted
            except BackendError as error:
                return error, posted
            finally:
                await backend.close()

    return asyncio.run(scene())


def shouting(said: Any) -> object:
    data = [text.upper() for text in said["inputs"][0]["data"]]
    output = {"name": "out", "datatype": "BYTES", "shape": [len(data)], "data": data}
    return {"model_name": "m", "model_version": "7", "id": said["id"], "outputs": [output]}


def of(result: Result | BackendError) -> Result:
    assert isinstance(result, Result), result
    return result


def test_texts_go_in_json_where_binary_is_not_spoken() -> None:
    batch = batch_of(b'"a"', '"é"'.encode(), parameters=b'{"k":5,"deep":true}')
    result, [said] = run(batch, shouting)
    assert said == {
        "id": "17",
        "inputs": [{"name": "text", "datatype": "BYTES", "shape": [2], "data": ["a", "é"]}],
        "parameters": {"k": 5, "deep": True},
    }
    assert (of(result).outputs, of(result).version) == ([b'"A"', '"É"'.encode()], "7")


def test_tensors_go_and_come_in_binary_where_it_is_spoken() -> None:
    def infer(said: Any) -> object:
        headers, content = said
        end = int(headers[LENGTH])
        head, raw = json.loads(content[:end]), content[end:]
        assert headers["content-type"] == "application/octet-stream"
        assert head["parameters"] == {"binary_data_output": True}
        ids, scale = head["inputs"]
        sizes = (ids["parameters"]["binary_data_size"], scale["parameters"]["binary_data_size"])
        assert (ids["shape"], scale["shape"], sizes) == ([2, 2], [2, 1], (32, 8))
        numbers, factors = struct.unpack("<4q", raw[:32]), struct.unpack("<2f", raw[32:])
        sums = [sum(numbers[:2]) * factors[0], sum(numbers[2:]) * factors[1]]
        labels = b"".join(struct.pack("<I", 1) + each for each in (b"p", b"q"))
        outputs = [
            {"name": "sum", "datatype": "FP64", "shape": [2], "parameters": {"binary_data_size": 16}},
            {
                "name": "label",
                "datatype": "BYTES",
                "shape": [2],
                "parameters": {"binary_data_size": len(labels)},
            },
            {"name": "spelt", "datatype": "BOOL", "shape": [2], "data": [True, False]},
        ]
        answer = json.dumps({"model_name": "m", "outputs": outputs}).encode()
        body = answer + struct.pack("<2d", *sums) + labels
        return web.Response(
            body=body, headers={LENGTH: str(len(answer)), "Content-Type": "application/octet-stream"}
        )

    batch = batch_of(b'{"ids":[1,2],"scale":0.5}', b'{"ids":[3,4],"scale":2}')
    result, _ = run(batch, infer, inputs=PAIR, binary=True, text=False)
    assert [json.loads(output) for output in of(result).outputs] == [
        {"sum": 1.5, "label": "p", "spelt": True},
        {"sum": 14.0, "label": "q", "spelt": False},
    ]


def test_a_version_and_an_output_may_be_named() -> None:
    result, [said] = run(batch_of(b'"a"'), shouting, query="?version=3&output=out")
    assert said["outputs"] == [{"name": "out"}]
    assert of(result).outputs == [b'"A"']


def test_nested_lists_of_numbers_are_read_as_flat_ones() -> None:
    for data in ([1.0, 2.0, 3.0, 4.0], [[1.0, 2.0], [3.0, 4.0]]):
        output = {"name": "out", "datatype": "FP32", "shape": [2, 2], "data": data}
        result, _ = run(batch_of(b'"a"', b'"b"'), lambda _, output=output: {"outputs": [output]})  # type: ignore[misc]
        assert of(result).outputs == [b"[1.0,2.0]", b"[3.0,4.0]"]


@pytest.mark.parametrize(
    "output",
    [
        {"name": "out", "datatype": "BYTES", "shape": [1], "data": ["a"]},
        {"name": "out", "datatype": "BYTES", "shape": [2], "data": ["a"]},
        {"name": "out", "datatype": "BYTES", "shape": [2], "data": ["a", 1]},
        {"name": "out", "datatype": "FP32", "shape": [2], "data": ["a", "b"]},
        {"name": "out", "datatype": "FP32", "shape": [2], "data": [1, None]},
        {"name": "out", "datatype": "FP32", "shape": [2]},
        {"name": "out", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": 99}},
        {"name": "out", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": -1}},
        {"name": "out", "datatype": "FP32", "shape": [2], "parameters": {"binary_data_size": "8"}},
        {"name": "out", "datatype": "COMPLEX", "shape": [2], "data": [1, 2]},
        {"name": "out", "datatype": "FP32", "shape": "2", "data": [1, 2]},
    ],
)
def test_an_answer_that_is_not_right_is_a_rejected_batch(output: object) -> None:
    error, _ = run(batch_of(b'"a"', b'"b"'), lambda _: {"outputs": [output]})
    assert isinstance(error, BatchRejected)


@pytest.mark.parametrize("made", [{}, [], "text", {"outputs": []}, web.Response(body=b"\xff")])
def test_an_answer_of_something_else_is_a_rejected_batch(made: object) -> None:
    error, _ = run(batch_of(b'"a"'), lambda _: made)
    assert isinstance(error, BatchRejected)


def test_a_model_that_takes_something_else_says_how_to_send_it() -> None:
    error, _ = run(batch_of(b'"a"'), shouting, inputs=PAIR)
    assert isinstance(error, BackendUnavailable)
    assert 'set input = "json"' in error.message


@pytest.mark.parametrize(
    "inputs", [[], [{"name": "x", "datatype": "BF16", "shape": [-1]}], [{**TEXT, "shape": []}]]
)
def test_a_model_whose_inputs_cannot_be_sent_does_not_start(inputs: list[Any]) -> None:
    error, _ = run(batch_of(b'"a"'), shouting, inputs=inputs, text=False)
    assert isinstance(error, BackendUnavailable)
    assert "which cannot be sent" in error.message


def test_a_model_that_is_not_there_or_not_ready_does_not_start() -> None:
    for pages in ({"m": lambda _: web.Response(status=404)}, {"ready": lambda _: web.Response(status=503)}):
        error, _ = run(batch_of(b'"a"'), shouting, **pages)  # type: ignore[arg-type]
        assert isinstance(error, BackendUnavailable)


def test_parameters_that_the_protocol_has_no_word_for_are_refused() -> None:
    error, posted = run(batch_of(b'"a"', parameters=b'{"odd":[1]}'), shouting)
    assert isinstance(error, BatchRejected)
    assert (error.details, posted) == ("it is 'odd'", [])


def test_429_is_back_pressure() -> None:
    error, _ = run(batch_of(b'"a"'), lambda _: web.Response(status=429, headers={"Retry-After": "2"}))
    assert isinstance(error, BackendBusy)
    assert error.retry_after == 2.0


def test_a_target_with_other_options_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match=r"oip\+http://host:port/model"):
        OpenInference("http://gpu:8000/m?key=1", "auto", text=True)
