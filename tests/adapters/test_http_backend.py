"""The HTTP backend and an endpoint that does its part: shape, headers, start and probe."""

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from http_kit import answer, backend_for, batch_of, echo, handler_of, hang, serving

from penstock.adapters.backends.http import HttpBackend, HttpShape
from penstock.errors import (
    BackendError,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
    UserMistake,
)
from penstock.types import Result

# Shape


def test_inputs_and_outputs_pass_byte_for_byte() -> None:
    seen: list[bytes] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(await request.read())
        return web.Response(body=b'{"ms": 3, "outputs": [ 1.50, {"b" : "\xc3\xa9"} ], "x": [[]]}')

    result = answer(handle, batch_of(b"1.0", b'{"a" :1}'))
    assert isinstance(result, Result)
    assert result.outputs == [b"1.50", b'{"b" : "\xc3\xa9"}']
    assert seen == [b'{"inputs": [1.0,{"a" :1}]}']


def test_the_request_template_takes_inputs_and_parameters_where_it_says() -> None:
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append((request.method, await request.json()))
        return web.json_response({"outputs": [1]})

    shape = HttpShape(request='{"opts": $parameters, "q": {"texts": $inputs}, "price": "$5"}')
    answer(handle, batch_of(b'"a"', parameters=b'{"k":2}'), shape)
    answer(handle, batch_of(b'"a"'), shape)
    assert seen == [
        ("POST", {"opts": {"k": 2}, "q": {"texts": ["a"]}, "price": "$5"}),
        ("POST", {"opts": {}, "q": {"texts": ["a"]}, "price": "$5"}),
    ]


def test_an_endpoint_can_be_described() -> None:
    """As docs/configuration.md shows it."""
    seen: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(await request.json())
        items = [{"label": text.upper(), "score": 1.0} for text in seen[-1]["texts"]]
        return web.json_response({"result": {"items": items}}, headers={"X-Model-Version": "3"})

    page = (Path(__file__).parents[2] / "docs" / "configuration.md").read_text(encoding="utf-8")
    example = page.partition("[models.labels.http]\n")[2].partition("```")[0]
    settings = tomllib.loads(example)
    assert settings.pop("health") == "/health"
    result = answer(handle, batch_of(b'"a"', b'"b"', parameters=b'{"k":1}'), HttpShape(**settings))
    assert isinstance(result, Result)
    assert (result.outputs, result.version) == ([b'"A"', b'"B"'], "3")
    assert seen == [{"texts": ["a", "b"], "options": {"k": 1}}]


def test_parameters_that_would_be_lost_are_refused() -> None:
    without = HttpShape(request='{"inputs": $inputs}')
    error = answer(echo, batch_of(b"1", parameters=b'{"k":2}'), without)
    assert isinstance(error, BatchRejected)
    assert "takes no parameters" in error.message
    assert not HttpBackend("http://h/", without).takes_parameters  # so that they are refused on arrival
    assert HttpBackend("http://h/", HttpShape(request='{"i": $inputs, "p": $parameters}')).takes_parameters


def test_parameters_go_along_by_default_and_only_where_there_are_some() -> None:
    assert HttpBackend("http://h/").takes_parameters
    assert HttpShape().fill([b"1", b"2"], b'{"k":2}') == b'{"inputs": [1,2], "parameters": {"k":2}}'
    assert HttpShape().fill([b"1", b"2"], b"") == b'{"inputs": [1,2]}'


@pytest.mark.parametrize(
    ("request_shape", "without"),
    [
        ('{"p": $parameters?, "i": $inputs}', b'{ "i": [1]}'),
        ('{"o": {"p": $parameters?}, "i": $inputs}', b'{"o": {}, "i": [1]}'),
        ('{"i": $inputs , "p" : $parameters? , "n": $count}', b'{"i": [1] , "n": 1}'),
    ],
)
def test_a_member_with_a_question_mark_is_left_out_where_there_are_no_parameters(
    request_shape: str, without: bytes
) -> None:
    assert HttpShape(request=request_shape).fill([b"1"], b"") == without


def test_a_question_mark_where_nothing_can_be_left_out_is_a_mistake() -> None:
    with pytest.raises(UserMistake, match="is not JSON once filled in"):
        HttpShape(request="[$inputs, $parameters?]")


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        (HttpShape(outputs=""), b"[1, 2]"),
        (HttpShape(outputs="data", item="embedding.values"),
         b'{"data": [{"embedding": {"values": 1}, "i": 0}, {"i": 1, "embedding": {"values": 2}}]}'),
        (HttpShape(outputs="result.items"), b'{"result": {"took": 3, "items": [1, 2]}}'),
        (HttpShape(outputs="outputs.1.data"), b'{"outputs": [{"data": [0]}, {"data": [1, 2]}, {"data": [3]}]}'),
    ],
)  # fmt: skip
def test_outputs_are_found_where_the_shape_says(shape: HttpShape, body: bytes) -> None:
    result = answer(handler_of(lambda: web.Response(body=body)), batch_of(b'"a"', b'"b"'), shape)
    assert isinstance(result, Result)
    assert result.outputs == [b"1", b"2"]


@pytest.mark.parametrize(
    ("version", "found"),
    [("meta.version", "7"), ("header:X-Model-Version", "v8"), ("header:X-Other", ""), ("meta.other", "")],
)
def test_the_model_version_is_taken_from_the_body_or_a_header(version: str, found: str) -> None:
    def respond() -> web.Response:
        body = {"outputs": [1], "meta": {"version": 7}}
        return web.json_response(body, headers={"X-Model-Version": "v8"})

    result = answer(handler_of(respond), batch_of(b"1"), HttpShape(version=version))
    assert isinstance(result, Result)
    assert result.version == found


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"request": '{"inputs": []}'}, "must say $inputs once"),
        ({"request": '{"inputs": "$inputs"}'}, "without quotes"),
        ({"request": '{"inputs": $inputs, "p": "$parameters"}'}, "without quotes"),
        ({"request": '{"inputs": $inputs'}, "is not JSON"),
        ({"outputs": "a..b"}, "names joined by dots"),
        ({"outputs": "a.64"}, "is at most 63"),
        ({"request": '{"inputs": $inputs, "n": "$count$inputs"}'}, "must say $inputs once"),
        ({"version": "header:"}, "names no header"),
        ({"pressure": "header:"}, "names no header"),
        ({"pressure": "gpu."}, "names joined by dots"),
        ({"method": "GET"}, "use POST, PUT or PATCH"),
        ({"headers": {"X A": "1"}}, "is not a header"),
        ({"headers": {"X-A": "1\r\nX-B: 2"}}, "is not a header"),
        ({"max_response": 0}, "at least 1 byte"),
    ],
)
def test_a_shape_that_cannot_work_is_refused_when_it_is_made(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(UserMistake) as caught:
        HttpShape(**settings)
    assert says in caught.value.message


@pytest.mark.parametrize("url", ["gpu-1:9000/batch", "ftp://gpu-1/batch", "http://", "http://[::1"])
def test_what_is_not_an_http_url_is_refused(url: str) -> None:
    with pytest.raises(UserMistake, match="use a URL such as"):
        HttpBackend(url)


# Headers


def test_headers_carry_the_batch_the_trace_and_secrets_from_the_environment() -> None:
    seen: list[dict[str, str]] = []

    async def handle(request: web.Request) -> web.Response:
        seen.append(dict(request.headers))
        return web.json_response({"outputs": [1, 2, 3]})

    headers = {"Authorization": "Bearer env:TOKEN", "X-Key": "env:KEY", "content-type": "application/x-batch"}
    traces = (None, f"00-{'a' * 32}-{'b' * 16}-01", f"00-{'c' * 32}-{'d' * 16}-01")
    environ = {"TOKEN": "t0p\n", "KEY": "k3y"}
    answer(
        handle, batch_of(b"1", b"2", b"3", traceparents=traces), HttpShape(headers=headers), environ=environ
    )
    assert seen[0]["Authorization"] == "Bearer t0p"
    assert seen[0]["X-Key"] == "k3y"
    assert seen[0]["Content-Type"] == "application/x-batch"
    assert (seen[0]["traceparent"], seen[0]["tracestate"]) == (traces[1], "vendor=k1")
    assert seen[0]["X-Penstock-Batch-Id"] == "17"


@pytest.mark.parametrize(("environ", "says"), [({}, "TOKEN: set it"), ({"TOKEN": "a\nb"}, "set it anew")])
def test_a_secret_that_is_missing_or_unfit_is_named_and_not_shown(environ: dict[str, str], says: str) -> None:
    with pytest.raises(UserMistake, match=says) as caught:
        HttpBackend("http://h/", HttpShape(headers={"X-Key": "env:TOKEN"}), environ=environ)
    assert "a\nb" not in caught.value.message


# Start, probe, warm-up


def test_start_asks_for_health() -> None:
    calls: list[str] = []

    async def handle(request: web.Request) -> web.Response:
        calls.append(json.dumps((await request.json())["inputs"]))
        return await echo(request)

    async def health(_: web.Request) -> web.Response:
        calls.append("health")
        return web.Response(status=204)

    async def body() -> None:
        shape = HttpShape(health="/health")
        async with (
            serving(handle, health) as url,
            backend_for(url, shape) as backend,
        ):
            await backend.probe()

    asyncio.run(body())
    assert calls == ["health", "health"]


@pytest.mark.parametrize(
    ("status", "text", "said", "kind"),
    [
        (500, "CUDA out of memory. Tried to allocate 2.00 GiB", '"a"', BackendOutOfMemory),
        (507, '{"error": "OutOfMemoryError"}', '"a"', BackendOutOfMemory),
        # It may be the input that says so.
        (500, "cannot read: CUDA out of memory", '"cuda \\u004fUT of memory"', BatchRejected),
        # This is a client's mistake.
        (400, "CUDA out of memory", '"a"', BatchRejected),
    ],
)
def test_an_endpoint_that_says_it_is_out_of_memory_has_said_so(
    status: int, text: str, said: str, kind: type[BackendError]
) -> None:
    handler = handler_of(lambda: web.Response(status=status, text=text))
    error = answer(handler, batch_of(b'"b"', said.encode()))
    assert type(error) is kind
    assert error.details == text


def test_a_probe_says_when_health_is_bad_or_slow() -> None:
    async def ill(_: web.Request) -> web.Response:
        return web.Response(status=500)

    async def body() -> None:
        for health, seconds, says in ((ill, 60.0, "with 500"), (hang, 0.05, "health probe within 0.05 s")):
            async with serving(echo, health) as url:
                backend = HttpBackend(url, HttpShape(health="/health"), probe_timeout=seconds)
                with pytest.raises(BackendUnavailable, match=says):
                    await backend.start()

    asyncio.run(body())
