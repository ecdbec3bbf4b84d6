"""Padding in front of each kind of backend: it is given an allowed size, and whoever asked gets their outputs."""

import asyncio
from pathlib import Path
from typing import Any

import http_kit
import pytest
from aiohttp import web
from msgspec import json
from process_kit import Started, batch

import grpc_kit
from penstock.adapters.backends.http import HttpShape
from penstock.core.sizes import powers_to
from penstock.runtime.padding import Padding
from penstock.types import Result

pytestmark = pytest.mark.usefixtures("patient_processes")
PADDING = Padding(powers_to(64), per_item=False)
FUNCTIONS = """
from penstock import Output

def counted(inputs):
    return [Output([len(inputs), text], tokens_used=place) for place, text in enumerate(inputs)]

def last_is_no_number(inputs):
    return [text if text != "nan" else float("nan") for text in inputs]

def paired(inputs, parameters):
    return [[len(inputs), *pair] for pair in zip(inputs, parameters, strict=True)]
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    file = tmp_path / "counting.py"
    file.write_text(FUNCTIONS)
    return file


def test_a_function_sees_an_allowed_size_and_each_asker_its_own_note(functions: Path) -> None:
    async def body() -> None:
        async with Started("counted", file=functions) as backend:
            result = await PADDING.run(backend, batch("a", "b", "c"))
            assert result.outputs == [
                b'[4,"%c"]\x1e"tokens_used":%d\x1e' % (letter, place) for place, letter in enumerate(b"abc")
            ]

    asyncio.run(body())


def test_an_output_that_fails_alone_fails_once_however_often_it_was_repeated(functions: Path) -> None:
    async def body() -> None:
        async with Started("last_is_no_number", file=functions) as backend:
            result = await PADDING.run(backend, batch("a", "b", "c", "d", "nan"))
            assert list(result.failures or ()) == [4]
            assert result.size == 5

    asyncio.run(body())


def test_a_function_with_parameters_for_each_input_gets_as_many(functions: Path) -> None:
    async def body() -> None:
        own = Padding(powers_to(64), per_item=True)
        async with Started("paired", file=functions, per_item=True) as backend:
            result = await own.run(backend, batch("a", "b", "c", parameters=b'[{"n":1},{},{"n":3}]'))
            assert [json.decode(output) for output in result.outputs] == [
                [4, "a", {"n": 1}],
                [4, "b", {}],
                [4, "c", {"n": 3}],
            ]

    asyncio.run(body())


def test_an_http_endpoint_is_sent_an_allowed_size() -> None:
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(await request.json())
        return web.json_response({"outputs": seen[-1]["inputs"]})

    async def body() -> Result:
        shape = HttpShape(request='{"inputs": $inputs, "count": $count}')
        async with http_kit.serving(handle) as url, http_kit.backend_for(url, shape) as backend:
            return await PADDING.run(backend, http_kit.batch_of(b"1", b"2", b"3", b"4", b"5"))

    assert asyncio.run(body()).outputs == [b"1", b"2", b"3", b"4", b"5"]
    assert seen == [{"inputs": [1, 2, 3, 4, 5, 5, 5, 5], "count": 8}]


def test_a_grpc_endpoint_is_sent_an_allowed_size() -> None:
    shapes: list[list[int]] = []

    async def infer(request: Any, context: Any) -> Any:
        shapes.append(list(request.inputs[0].shape))
        return await grpc_kit.echo(request, context)

    async def body() -> Result:
        service = grpc_kit.Service(infer)
        async with grpc_kit.serving(service) as url, grpc_kit.backend_for(url) as backend:
            return await PADDING.run(backend, grpc_kit.batch_of(b'"a"', b'"b"', b'"c"'))

    assert asyncio.run(body()).outputs == [b'"a"', b'"b"', b'"c"']
    assert shapes[0][0] == 4
