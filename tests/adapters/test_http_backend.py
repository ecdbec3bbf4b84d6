"""The HTTP backend against real servers, well-behaved and otherwise (SPEC F2, F7; CHAOS C2)."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psutil
import pytest
import uvloop
from aiohttp import web

from penstock.adapters.backends.http import HttpBackend, HttpShape
from penstock.errors import (
    BackendCrashed,
    BackendError,
    BackendTimeout,
    BackendUnavailable,
    BatchRejected,
    UserMistake,
)
from penstock.types import Batch, Reason, Request, Result

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def batch_of(*inputs: bytes, parameters: bytes = b"", traceparents: tuple[str | None, ...] = ()) -> Batch:
    requests = [Request(f"k{i}", "m", text, 0.0, 9.0, 9.0) for i, text in enumerate(inputs)]
    for request, traceparent in zip(requests, traceparents, strict=False):
        request.traceparent = traceparent
    return Batch(17, "m", parameters, requests, Reason.FULL, 0.0)


async def echo(request: web.Request) -> web.Response:
    return web.json_response({"outputs": (await request.json())["inputs"]})


@asynccontextmanager
async def serving(handler: Handler, health: Handler | None = None) -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_post("/batch", handler)
    if health:
        app.router.add_get("/health", health)
    runner = web.AppRunner(app, shutdown_timeout=0.01, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/batch"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def saying(words: bytes, *, reset: bool = False) -> AsyncIterator[str]:
    """A server that answers every request with these bytes and hangs up (or resets)."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if await reader.read(65536):
            writer.write(words)
            if reset:
                writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/batch"
    finally:
        server.close()
        await server.wait_closed()


@asynccontextmanager
async def backend_for(
    url: str, shape: HttpShape | None = None, **settings: Any
) -> AsyncIterator[HttpBackend]:
    backend = HttpBackend(url, shape, **{"output_kind": "json", **settings})
    await backend.start()
    try:
        yield backend
    finally:
        await backend.close()


def answer(
    handler: Handler, batch: Batch, shape: HttpShape | None = None, **settings: Any
) -> Result | BackendError:
    """What one run against such a handler gives: a result, or the backend's error."""

    async def body() -> Result | BackendError:
        async with serving(handler) as url, backend_for(url, shape, **settings) as backend:
            try:
                return await backend.run(batch)
            except BackendError as error:
                return error

    return asyncio.run(body())


def answer_to_words(words: bytes, *, reset: bool = False) -> BackendError:
    async def body() -> BackendError:
        async with saying(words, reset=reset) as url, backend_for(url) as backend:
            with pytest.raises(BackendError) as caught:
                await backend.run(batch_of(b"1"))
            return caught.value

    return asyncio.run(body())


def handler_of(response: Callable[[], web.Response]) -> Handler:
    async def handle(_: web.Request) -> web.Response:
        return response()

    return handle


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


def test_parameters_that_would_be_lost_are_refused() -> None:
    error = answer(echo, batch_of(b"1", parameters=b'{"k":2}'))
    assert isinstance(error, BatchRejected)
    assert "takes no parameters" in error.message


@pytest.mark.parametrize(
    ("shape", "body"),
    [
        (HttpShape(outputs=""), b"[1, 2]"),
        (HttpShape(outputs="data", item="embedding.values"),
         b'{"data": [{"embedding": {"values": 1}, "i": 0}, {"i": 1, "embedding": {"values": 2}}]}'),
        (HttpShape(outputs="result.items"), b'{"result": {"took": 3, "items": [1, 2]}}'),
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
        ({"version": "header:"}, "names no header"),
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
    assert seen[0]["traceparent"] == traces[1]
    assert seen[0]["X-Penstock-Batch-Id"] == "17"


@pytest.mark.parametrize(("environ", "says"), [({}, "TOKEN: set it"), ({"TOKEN": "a\nb"}, "set it anew")])
def test_a_secret_that_is_missing_or_unfit_is_named_and_not_shown(environ: dict[str, str], says: str) -> None:
    with pytest.raises(UserMistake, match=says) as caught:
        HttpBackend("http://h/", HttpShape(headers={"X-Key": "env:TOKEN"}), environ=environ)
    assert "a\nb" not in caught.value.message


# Answers that are no answer


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "endpoint's response is not JSON"),
        (b"", "endpoint's response is not JSON"),
        (b'{"outputs": ["\xff", "a"]}', "endpoint's response is not JSON"),
        (b'{"outputs": [' + b"[" * 100_000 + b"]" * 100_000 + b"]}", "endpoint's response is not JSON"),
        (b'{"results": [1, 2]}', "at 'outputs': expected a list of outputs: Object missing required field"),
        (b'{"outputs": {"a": 1}}', "at 'outputs': expected a list of outputs: Expected `array`"),
        (b'{"outputs": ["a"]}', "at 'outputs': expected 2 outputs, found 1"),
        (b'{"outputs": ["a", "b", "c"]}', "at 'outputs': expected 2 outputs, found 3"),
        (b'{"outputs": ["a", 2]}', "expected strings"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_a_rejected_batch_that_says_why(body: bytes, says: str) -> None:
    error = answer(handler_of(lambda: web.Response(body=body)), batch_of(b"1", b"2"), output_kind="text")
    assert isinstance(error, BatchRejected)
    assert says in error.message


@pytest.mark.parametrize("status", [302, 400, 404, 500, 502])
def test_a_bad_status_is_a_rejected_batch_with_the_first_words_of_the_body(status: int) -> None:
    headers = {"Location": "/elsewhere"}
    respond = handler_of(
        lambda: web.Response(status=status, text="out of memory" + "x" * 9999, headers=headers)
    )
    error = answer(respond, batch_of(b"1"))
    assert isinstance(error, BatchRejected)
    assert error.message.startswith(f"endpoint answered {status}: out of memory")
    assert len(error.message) < 250


@pytest.mark.parametrize("status", [429, 503])
def test_an_endpoint_that_is_full_is_unavailable_for_as_long_as_it_says(status: int) -> None:
    respond = handler_of(lambda: web.Response(status=status, headers={"Retry-After": "3"}))
    error = answer(respond, batch_of(b"1"))
    assert isinstance(error, BackendUnavailable)
    assert error.retry_after == 3.0


def test_an_answer_over_the_limit_is_cut_off() -> None:
    respond = handler_of(lambda: web.Response(body=b'["' + b"x" * 5000 + b'"]'))
    error = answer(respond, batch_of(b"1"), HttpShape(outputs="", max_response=4096))
    assert isinstance(error, BatchRejected)
    assert "more than the 4096 bytes" in error.message


def test_nobody_listening_is_unavailable_at_start() -> None:
    async def body() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            backend = HttpBackend(f"http://127.0.0.1:{taken.getsockname()[1]}/batch")
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await backend.start()
        with pytest.raises(BackendUnavailable, match="is closed"):
            await backend.run(batch_of(b"1"))

    asyncio.run(body())


def test_an_endpoint_that_goes_away_between_batches_is_unavailable() -> None:
    async def body() -> None:
        async with serving(echo) as url:
            backend = HttpBackend(url, output_kind="json")
            await backend.start()
            await backend.run(batch_of(b"1"))
        with pytest.raises(BackendUnavailable):
            await backend.run(batch_of(b"1"))
        await backend.close()

    asyncio.run(body())


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_cut_before_the_answer_means_unavailable(reset: bool) -> None:
    assert isinstance(answer_to_words(b"", reset=reset), BackendUnavailable)


@pytest.mark.parametrize(
    "words",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"outputs": [',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"outpu\r\n',
    ],
)
def test_a_connection_cut_in_the_middle_of_the_answer_is_a_crash(words: bytes) -> None:
    assert isinstance(answer_to_words(words), BackendCrashed)


def test_an_answer_that_is_not_http_is_unavailable() -> None:
    assert isinstance(answer_to_words(b"SSH-2.0-OpenSSH_9.2\r\n"), BackendUnavailable)


# Time


async def hang(_: web.Request) -> web.Response:
    await asyncio.get_running_loop().create_future()
    raise AssertionError("never reached")


async def trickle(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b" ")
        await asyncio.sleep(0.001)


async def hang_up_half(request: web.Request) -> web.StreamResponse:
    """Close our half of the connection after half an answer, and keep the other half open."""
    response = web.StreamResponse(headers={"Content-Length": "500"})
    await response.prepare(request)
    await response.write(b'{"outputs": [')
    assert request.transport is not None
    request.transport.get_extra_info("socket").shutdown(socket.SHUT_WR)
    return await hang(request)


@pytest.mark.parametrize("handler", [hang, trickle])
def test_an_endpoint_without_an_end_is_cut_by_cancelling_and_the_next_batch_is_clean(
    handler: Handler,
) -> None:
    faulty = True

    async def handle(request: web.Request) -> web.StreamResponse:
        return await (handler if faulty else echo)(request)

    async def body() -> None:
        nonlocal faulty
        async with serving(handle) as url, backend_for(url) as backend:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await backend.run(batch_of(b'"old"'))
            faulty = False
            assert (await backend.run(batch_of(b'"new"'))).outputs == [b'"new"']

    asyncio.run(body())


def test_an_endpoint_that_closes_its_half_in_mid_answer_has_crashed() -> None:
    assert isinstance(answer(hang_up_half, batch_of(b"1")), BackendCrashed)


def test_a_second_batch_at_the_same_time_is_refused() -> None:
    async def body() -> None:
        async with serving(hang) as url, backend_for(url) as backend:
            first = asyncio.create_task(backend.run(batch_of(b"1")))
            await asyncio.sleep(0)
            with pytest.raises(BatchRejected, match="one batch at a time"):
                await backend.run(batch_of(b"2"))
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first

    asyncio.run(body())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_a_thousand_cancelled_batches_leak_no_connection_no_task_and_no_descriptor(runner: Any) -> None:
    taken, left = asyncio.Event(), asyncio.Event()
    held = served = 0
    healthy = False

    async def handle(request: web.Request) -> web.StreamResponse:
        nonlocal held, served
        if healthy:
            return await echo(request)
        held, served = held + 1, served + 1
        taken.set()
        try:
            return await (trickle if served % 2 else hang)(request)
        finally:
            held -= 1
            left.set()

    async def all_have_left() -> None:
        while held:
            left.clear()
            await left.wait()

    async def in_use() -> tuple[int, int]:
        for _ in range(1000):  # the loop closes a socket some turns after it was told to
            await asyncio.sleep(0)
        return psutil.Process().num_fds(), len(asyncio.all_tasks())

    async def body() -> None:
        nonlocal healthy
        async with serving(handle) as url, backend_for(url) as backend:
            before = await in_use()
            for turn in range(1000):
                taken.clear()
                task = asyncio.create_task(backend.run(batch_of(b"1")))
                await (taken.wait() if turn % 10 else asyncio.sleep(0))  # every tenth is still connecting
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            await all_have_left()
            assert served >= 900
            assert await in_use() == before
            healthy = True
            await backend.run(batch_of(b"1"))  # the only place in the pool is free

    runner(asyncio.wait_for(body(), 60))


def test_connections_are_kept_from_batch_to_batch() -> None:
    peers: set[Any] = set()

    async def handle(request: web.Request) -> web.Response:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await echo(request)

    async def body() -> None:
        async with serving(handle) as url, backend_for(url) as backend:
            for _ in range(20):
                await backend.run(batch_of(b"1"))
        assert len(peers) == 1

    asyncio.run(body())


# Start, probe, warm-up


def test_start_asks_for_health_and_runs_the_warm_up_once() -> None:
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
            backend_for(url, shape, warm_up=[b'"a"', b'"b"']) as backend,
        ):
            await backend.probe()

    asyncio.run(body())
    assert calls == ["health", '["a", "b"]', "health"]


def test_a_warm_up_that_fails_or_hangs_fails_the_start() -> None:
    async def body() -> None:
        async with serving(hang) as url:
            with pytest.raises(BackendTimeout, match="warm-up"):
                await HttpBackend(url, warm_up=[b"1"], start_timeout=0.05).start()
        async with serving(handler_of(lambda: web.Response(status=500))) as url:
            with pytest.raises(BatchRejected):
                await HttpBackend(url, warm_up=[b"1"]).start()

    asyncio.run(body())


def test_a_probe_says_when_health_is_bad_or_slow() -> None:
    async def ill(_: web.Request) -> web.Response:
        return web.Response(status=500)

    async def body() -> None:
        for health, says in ((ill, "with 500"), (hang, "in time")):
            async with serving(echo, health) as url:
                backend = HttpBackend(url, HttpShape(health="/health"), probe_timeout=0.05)
                with pytest.raises(BackendUnavailable, match=says):
                    await backend.start()

    asyncio.run(body())


def test_an_endpoint_that_refuses_a_large_batch_before_reading_it_is_heard() -> None:
    error = answer(handler_of(lambda: web.Response(status=413)), batch_of(b'"' + b"x" * 30_000_000 + b'"'))
    assert isinstance(error, BatchRejected)
    assert error.message == "endpoint answered 413"
