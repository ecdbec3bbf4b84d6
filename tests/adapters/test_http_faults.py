"""The HTTP backend and an endpoint that fails, hangs or leaves."""

import asyncio
import gc
import socket
import time
from contextlib import AsyncExitStack
from typing import Any

import psutil
import pytest
import uvloop
from aiohttp import web
from http_kit import (
    PATIENT,
    Handler,
    answer,
    answer_to_words,
    backend_for,
    batch_of,
    echo,
    handler_of,
    hang,
    loss_noticed,
    serving,
)

from penstock.adapters.backends.http import HttpBackend, HttpShape
from penstock.errors import BackendBusy, BackendCrashed, BackendUnavailable, BatchRejected

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


@pytest.mark.parametrize("body", [b'{"outputs": []}', b'{"outputs": {"0": [1]}}', b'{"outputs": [[1, 2]]}'])
def test_a_list_without_the_place_that_was_named_is_a_rejected_batch(body: bytes) -> None:
    error = answer(
        handler_of(lambda: web.Response(body=body)), batch_of(b"1"), HttpShape(outputs="outputs.0")
    )
    assert isinstance(error, BatchRejected)


@pytest.mark.parametrize("status", [302, 400, 404, 500, 502])
def test_a_bad_status_is_a_rejected_batch_with_the_first_words_of_the_body_in_its_details(
    status: int,
) -> None:
    headers = {"Location": "/elsewhere"}
    respond = handler_of(
        lambda: web.Response(status=status, text="no such label" + "x" * 9999, headers=headers)
    )
    error = answer(respond, batch_of(b"1"))
    assert isinstance(error, BatchRejected)
    assert error.message == f"endpoint answered {status}"
    assert error.details.startswith("no such label")
    assert len(error.details) < 250


@pytest.mark.parametrize(
    ("status", "headers", "wait"),
    [
        (429, {"Retry-After": "3"}, 3.0),
        (429, {}, None),
        (429, {"Retry-After": "3", "retry-after-ms": "2500"}, 2.5),
        (429, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        (429, {"Retry-After": "soon"}, None),
        (503, {"Retry-After": "3"}, 3.0),
    ],
)
def test_an_endpoint_that_is_full_is_busy_for_as_long_as_it_says(
    status: int, headers: dict[str, str], wait: float | None
) -> None:
    respond = handler_of(lambda: web.Response(status=status, headers=headers))
    error = answer(respond, batch_of(b"1"))
    assert isinstance(error, BackendBusy)
    assert not error.fatal
    assert error.retry_after == wait


def test_an_endpoint_that_does_not_say_when_it_will_be_back_is_unavailable() -> None:
    error = answer(handler_of(lambda: web.Response(status=503)), batch_of(b"1"))
    assert isinstance(error, BackendUnavailable)


def test_an_answer_over_the_limit_is_cut_off() -> None:
    respond = handler_of(lambda: web.Response(body=b'["' + b"x" * 5000 + b'"]'))
    error = answer(respond, batch_of(b"1"), HttpShape(outputs="", max_response=4096))
    assert isinstance(error, BatchRejected)
    assert "more than the 4096 bytes" in error.message


def test_nobody_listening_is_unavailable_at_start() -> None:
    async def body() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            backend = HttpBackend(f"http://127.0.0.1:{taken.getsockname()[1]}/batch", **PATIENT)
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await backend.start()
        with pytest.raises(BackendUnavailable, match="is closed"):
            await backend.run(batch_of(b"1"))

    asyncio.run(body())


def test_an_endpoint_that_goes_away_between_batches_is_unavailable() -> None:
    async def body() -> None:
        async with AsyncExitStack() as endpoint:
            url = await endpoint.enter_async_context(serving(echo))
            async with backend_for(url) as backend:
                await backend.run(batch_of(b"1"))
                await endpoint.aclose()
                await loss_noticed(backend)
                with pytest.raises(BackendUnavailable):
                    await backend.run(batch_of(b"1"))

    asyncio.run(body())


@pytest.mark.parametrize("reset", [False, True])
def test_a_connection_cut_before_the_answer_is_a_crash(reset: bool) -> None:
    """The endpoint had the batch, and may have died of it."""
    assert isinstance(answer_to_words(b"", reset=reset), BackendCrashed)


@pytest.mark.parametrize(
    "words",
    [
        b'HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{"outputs": [',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\n{"outpu\r\n',
    ],
)
def test_a_connection_cut_in_the_middle_of_the_answer_is_a_crash(words: bytes) -> None:
    assert isinstance(answer_to_words(words), BackendCrashed)


def test_an_answer_that_is_not_http_is_a_crash() -> None:
    assert isinstance(answer_to_words(b"SSH-2.0-OpenSSH_9.2\r\n"), BackendCrashed)


def test_an_endpoint_that_refuses_a_large_batch_before_reading_it_is_heard() -> None:
    error = answer(handler_of(lambda: web.Response(status=413)), batch_of(b'"' + b"x" * 30_000_000 + b'"'))
    assert isinstance(error, BatchRejected)
    assert error.message == "endpoint answered 413"


# Time


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
            gc.collect()  # what others have left is not to go meanwhile
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
            ends = time.monotonic() + 30.0
            while (after := await in_use()) != before:  # what has leaked stays
                assert time.monotonic() < ends, f"{after} in use, and {before} before"
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
