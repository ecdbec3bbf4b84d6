"""The gRPC backend and an endpoint that does its part: tensors, parameters, start and probe."""

import asyncio
import struct
from typing import Any

import pytest

from grpc_kit import (
    PATIENT,
    Service,
    answer,
    backend_for,
    batch_of,
    echo,
    raw_texts,
    response_to,
    serving,
)
from penstock.adapters.backends.grpc import GrpcBackend
from penstock.adapters.backends.oip.settings import GrpcSettings
from penstock.errors import BackendUnavailable, BatchRejected, UserMistake
from penstock.types import Result

# What goes out


def seen_of(
    *inputs: bytes, parameters: bytes = b"", shape: GrpcSettings | None = None, **settings: Any
) -> Any:
    """The request that the endpoint was sent."""
    seen: list[Any] = []

    async def infer(request: Any, context: Any) -> Any:
        seen.append(request)
        return await echo(request, context)

    result = answer(infer, batch_of(*inputs, parameters=parameters), shape, **settings)
    assert isinstance(result, Result), result
    return seen[0]


def test_texts_go_out_as_one_tensor_and_come_back_in_order() -> None:
    result = answer(echo, batch_of(b'"a"', b'"\\u00e9\\n\\""', b'""'))
    assert isinstance(result, Result)
    assert result.outputs == [b'"a"', '"é\\n\\""'.encode(), b'""']
    assert result.version == "7"


def test_a_request_names_the_model_its_version_the_batch_and_the_output() -> None:
    request = seen_of(b'"a"', b'"b"', shape=GrpcSettings(version="3", output_name="out"))
    assert (request.model_name, request.model_version, request.id) == ("m", "3", "17")
    assert [tensor.name for tensor in request.outputs] == ["out"]
    (tensor,) = request.inputs
    assert (tensor.name, tensor.datatype, list(tensor.shape)) == ("text", "BYTES", [2])
    assert list(tensor.contents.bytes_contents) == [b"a", b"b"]


def test_json_models_are_sent_the_json_as_it_came() -> None:
    request = seen_of(b'{"a" :1.0}', b"[1]", input_kind="json", output_kind="json")
    assert list(request.inputs[0].contents.bytes_contents) == [b'{"a" :1.0}', b"[1]"]


@pytest.mark.parametrize(
    ("shape", "described", "sent"),
    [
        ("auto", [-1], [2]),
        ("auto", [-1, 1], [2, 1]),
        ("auto", [-1, -1], [2, 1]),
        ("[n]", [-1, 1], [2]),
        ("[n,1]", [-1], [2, 1]),
    ],
)
def test_the_shape_is_the_models_own_unless_it_is_set(
    shape: Any, described: list[int], sent: list[int]
) -> None:
    async def body() -> None:
        shapes: list[list[int]] = []

        async def infer(request: Any, context: Any) -> Any:
            shapes.append(list(request.inputs[0].shape))
            return await echo(request, context)

        service = Service(infer, inputs=[("text", "BYTES", described)])
        async with serving(service) as url, backend_for(url, GrpcSettings(shape=shape)) as backend:
            await backend.run(batch_of(b'"a"', b'"b"'))
        assert shapes == [sent]

    asyncio.run(body())


def test_scalar_parameters_go_along_and_others_are_refused_by_name() -> None:
    request = seen_of(b'"a"', parameters=b'{"deep":true,"k":-2,"t":0.5,"lang":"en"}')
    assert {name: value.WhichOneof("parameter_choice") for name, value in request.parameters.items()} == {
        "deep": "bool_param",
        "k": "int64_param",
        "t": "double_param",
        "lang": "string_param",
    }
    assert request.parameters["k"].int64_param == -2
    for value in (b"[1]", b"{}", b"null", b"9223372036854775808"):
        error = answer(echo, batch_of(b'"a"', parameters=b'{"odd":' + value + b"}"))
        assert isinstance(error, BatchRejected)
        assert "a parameter cannot be sent" in error.message
        assert error.details == "it is 'odd'"


def test_headers_carry_the_batch_the_trace_and_secrets_from_the_environment() -> None:
    seen: list[dict[str, Any]] = []

    async def infer(request: Any, context: Any) -> Any:
        seen.append(dict(context.invocation_metadata()))
        return await echo(request, context)

    shape = GrpcSettings(headers={"Authorization": "Bearer env:TOKEN"})
    traces = (None, f"00-{'a' * 32}-{'b' * 16}-01")
    answer(infer, batch_of(b'"1"', b'"2"', traceparents=traces), shape, environ={"TOKEN": "t0p\n"})
    assert seen[0]["authorization"] == "Bearer t0p"
    assert (seen[0]["traceparent"], seen[0]["tracestate"]) == (traces[1], "vendor=k1")
    assert seen[0]["x-penstock-batch-id"] == "17"


def wire(content: bytes) -> list[tuple[int, int, bytes | int]]:
    """The fields of a message as protobuf writes them: number, kind, content."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            byte = content[at]
            value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
            if byte < 0x80:
                return value, at

    found: list[tuple[int, int, bytes | int]] = []
    at = 0
    while at < len(content):
        key, at = varint(at)
        value, at = varint(at)
        if key & 7 == 2:
            found.append((key >> 3, 2, content[at : at + value]))
            at += value
        else:
            found.append((key >> 3, key & 7, value))
    return found


def test_fields_have_the_numbers_of_the_protocol_on_the_wire() -> None:
    """Both ends of the other tests read one description; this one reads the bytes."""
    request = seen_of(b'"a"', parameters=b'{"k":5}', shape=GrpcSettings(version="3", output_name="out"))
    tensor = b"\x0a\x04text" + b"\x12\x05BYTES" + b"\x1a\x01\x01" + b"\x2a\x03\x42\x01a"
    assert wire(request.SerializeToString()) == [
        (1, 2, b"m"),
        (2, 2, b"3"),
        (3, 2, b"17"),
        (4, 2, b"\x0a\x01k" + b"\x12\x02\x10\x05"),
        (5, 2, tensor),
        (6, 2, b"\x0a\x03out"),
    ]
    raw = response_to(request, [b"a"], raw=raw_texts(b"a"))
    spelled = response_to(request, [1.0], datatype="FP32", contents="fp32_contents")
    assert wire(raw.SerializeToString())[-1] == (6, 2, b"\x01\x00\x00\x00a")
    assert wire(spelled.SerializeToString())[-1] == (
        5, 2, b"\x0a\x03out" + b"\x12\x04FP32" + b"\x1a\x01\x01" + b"\x2a\x06\x32\x04" + struct.pack("<f", 1.0)
    )  # fmt: skip


# What comes back


def outputs_of(size: int, values: list[Any], *, output_kind: str = "json", **tensor: Any) -> list[bytes]:
    async def infer(request: Any, _: Any) -> Any:
        return response_to(request, values, **tensor)

    result = answer(infer, batch_of(*[b'"x"'] * size), output_kind=output_kind)
    assert isinstance(result, Result), result
    return result.outputs


def test_raw_texts_are_read_as_those_that_are_spelled_out() -> None:
    raw = raw_texts(b"a", b"", "é".encode())
    assert outputs_of(3, [], shape=[3], raw=raw, output_kind="text") == [b'"a"', b'""', '"é"'.encode()]
    assert outputs_of(3, [], shape=[3, 1], raw=raw, output_kind="text") == [b'"a"', b'""', '"é"'.encode()]


def test_json_outputs_pass_byte_for_byte() -> None:
    assert outputs_of(2, [b'{"b" : 1.50}', b"[]"]) == [b'{"b" : 1.50}', b"[]"]


@pytest.mark.parametrize(
    ("datatype", "contents", "letter", "values", "shape", "outputs"),
    [
        ("FP32", "fp32_contents", "f", [1.0, 0.5, -2.0, 0.25], [2, 2], [b"[1.0,0.5]", b"[-2.0,0.25]"]),
        ("FP64", "fp64_contents", "d", [0.1, 0.2], [2], [b"0.1", b"0.2"]),
        ("FP64", "fp64_contents", "d", [1e308, 1e308], [2], [b"1e308", b"1e308"]),
        ("FP16", None, "e", [1.5, 2.0], [2, 1], [b"[1.5]", b"[2.0]"]),
        ("INT64", "int64_contents", "q", [2**62, -1], [2], [b"4611686018427387904", b"-1"]),
        ("INT8", "int_contents", "b", [1, -2], [2], [b"1", b"-2"]),
        ("UINT16", "uint_contents", "H", [1, 65535], [2], [b"1", b"65535"]),
        ("UINT64", "uint64_contents", "Q", [1, 2**64 - 1], [2], [b"1", b"18446744073709551615"]),
        ("BOOL", "bool_contents", "?", [True, False], [2], [b"true", b"false"]),
        ("INT32", "int_contents", "i", list(range(8)), [2, 2, 2], [b"[[0,1],[2,3]]", b"[[4,5],[6,7]]"]),
    ],
)
def test_numbers_become_one_json_value_for_each_input(
    datatype: str,
    contents: str | None,
    letter: str,
    values: list[Any],
    shape: list[int],
    outputs: list[bytes],
) -> None:
    raw = struct.pack(f"<{len(values)}{letter}", *values)
    assert outputs_of(2, [], datatype=datatype, shape=shape, raw=raw) == outputs
    if contents is not None:
        assert outputs_of(2, values, datatype=datatype, shape=shape, contents=contents) == outputs


def test_an_output_is_found_by_its_name_among_several() -> None:
    async def infer(request: Any, _: Any) -> Any:
        response = response_to(request, [], name="scores", shape=[1], raw=raw_texts(b"wrong"))
        response.outputs.add(name="texts", datatype="BYTES", shape=[1])
        response.raw_output_contents.append(raw_texts(b"right"))
        return response

    result = answer(infer, batch_of(b'"x"'), GrpcSettings(output_name="texts"))
    assert isinstance(result, Result)
    assert result.outputs == [b'"right"']


# Several tensors


def test_a_model_of_several_tensors_gets_them_in_binary_and_gives_objects() -> None:
    seen: list[Any] = []

    async def infer(request: Any, _: Any) -> Any:
        seen.append(request)
        response = response_to(
            request, [], name="sum", datatype="INT64", shape=[2], raw=struct.pack("<2q", 3, 7)
        )
        response.outputs.add(name="label", datatype="BYTES", shape=[2])
        response.raw_output_contents.append(raw_texts(b"a", b"b"))
        return response

    async def body() -> Result:
        service = Service(infer, inputs=[("ids", "INT64", [-1, -1]), ("name", "BYTES", [-1])])
        async with serving(service) as url, backend_for(url, input_kind="json") as backend:
            return await backend.run(batch_of(b'{"ids":[1,2],"name":"x"}', b'{"ids":[3,4],"name":"yy"}'))

    result = asyncio.run(body())
    [request] = seen
    assert [(each.name, each.datatype, list(each.shape)) for each in request.inputs] == [
        ("ids", "INT64", [2, 2]),
        ("name", "BYTES", [2]),
    ]
    assert list(request.raw_input_contents) == [struct.pack("<4q", 1, 2, 3, 4), raw_texts(b"x", b"yy")]
    assert result.outputs == [b'{"sum":3,"label":"a"}', b'{"sum":7,"label":"b"}']


def test_a_model_that_takes_what_cannot_be_sent_does_not_start() -> None:
    async def body() -> None:
        async with serving(Service(inputs=[("a", "BF16", [-1])])) as url:
            with pytest.raises(BackendUnavailable, match="'a' is BF16, which cannot be sent"):
                await GrpcBackend(url, input_kind="json", **PATIENT).start()

    asyncio.run(body())


# Start, probe, warm-up


def test_start_asks_for_readiness_and_a_description() -> None:
    async def body() -> None:
        service = Service()
        async with serving(service) as url, backend_for(url) as backend:
            await backend.probe()
        assert service.asked == ["ModelReady", "ModelMetadata", "ModelReady"]

    asyncio.run(body())


def test_nothing_is_asked_about_a_tensor_that_is_set() -> None:
    async def body() -> None:
        service = Service()
        async with serving(service) as url, backend_for(url, GrpcSettings(input_name="text", shape="[n]")):
            pass
        assert service.asked == ["ModelReady"]

    asyncio.run(body())


@pytest.mark.parametrize(
    ("inputs", "name", "says"),
    [
        (
            [("a", "BYTES", [-1]), ("b", "BYTES", [-1])],
            "",
            "these inputs: a, b; say which with grpc.input_name",
        ),
        ([], "", "these inputs: none; say which"),
        ([("a", "BYTES", [-1])], "b", "these inputs: a; it has no 'b'"),
        ([("a", "FP32", [-1])], "", "'a' is FP32 [-1]: it must be BYTES"),
        ([("a", "BYTES", [-1, 3])], "", "'a' is BYTES [-1, 3]: it must be BYTES, one a request"),
        ([("a", "BYTES", [])], "", "'a' is BYTES []"),
    ],
)
def test_a_model_that_takes_something_else_does_not_start_and_says_why(
    inputs: list[tuple[str, str, list[int]]], name: str, says: str
) -> None:
    async def body() -> None:
        async with serving(Service(inputs=inputs)) as url:
            with pytest.raises(BackendUnavailable) as caught:
                await GrpcBackend(url, GrpcSettings(input_name=name), **PATIENT).start()
        assert says in caught.value.message

    asyncio.run(body())


def test_a_named_input_of_a_model_that_describes_nothing_is_believed() -> None:
    async def body() -> None:
        async with (
            serving(Service(inputs=[])) as url,
            backend_for(url, GrpcSettings(input_name="text")) as backend,
        ):
            assert (await backend.run(batch_of(b'"a"'))).outputs == [b'"a"']

    asyncio.run(body())


# Settings


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"headers": {"X A": "1"}}, "is not a header"),
        ({"headers": {"grpc-status": "0"}}, "is not a header"),
        ({"headers": {"x-bin": "0"}}, "is not a header"),
        ({"headers": {"X-A": "é"}}, "is not a header"),
        ({"max_response": 0}, "at least 1 byte"),
        ({"client_key": "key.pem"}, "without its grpc.client_certificate"),
        ({"ca_file": "/no/such/file"}, "grpc.ca_file /no/such/file: No such file"),
        ({"client_certificate": "/no/such", "client_key": "/no/such"}, "client_key /no/such: No such file"),
    ],
)
def test_settings_that_cannot_work_are_refused_when_they_are_made(
    settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(UserMistake) as caught:
        GrpcSettings(**settings)
    assert says in caught.value.message


@pytest.mark.parametrize(
    "url", ["gpu-1:8001/m", "grpc://gpu-1/m", "grpc://gpu-1:8001", "grpc://gpu-1:8001/m/1"]
)
def test_what_is_not_a_grpc_url_is_refused(url: str) -> None:
    with pytest.raises(UserMistake, match="grpc://host:port/model"):
        GrpcBackend(url)


@pytest.mark.parametrize(("environ", "says"), [({}, "TOKEN: set it"), ({"TOKEN": "é"}, "only ASCII")])
def test_a_secret_that_is_missing_or_unfit_is_named_and_not_shown(environ: dict[str, str], says: str) -> None:
    with pytest.raises(UserMistake, match=says) as caught:
        GrpcBackend("grpc://h:1/m", GrpcSettings(headers={"X-Key": "env:TOKEN"}), environ=environ)
    assert "é" not in caught.value.message
