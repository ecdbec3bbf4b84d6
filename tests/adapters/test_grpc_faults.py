"""The gRPC backend and an endpoint that fails, hangs or leaves."""

import asyncio
import gc
import socket
from contextlib import AsyncExitStack
from math import inf, nan
from typing import Any

import grpc
import psutil
import pytest
import uvloop

from grpc_kit import (
    PATIENT,
    Service,
    answer,
    backend_for,
    batch_of,
    echo,
    hang,
    line_to,
    loss_noticed,
    raw_texts,
    refusing,
    response_to,
    serving,
)
from own_ports import free_port
from penstock.adapters.backends import grpc as grpc_backend
from penstock.adapters.backends.grpc import GrpcBackend
from penstock.adapters.backends.oip.retry_info import delay_in
from penstock.adapters.backends.oip.settings import GrpcSettings
from penstock.errors import (
    BackendBusy,
    BackendCrashed,
    BackendError,
    BackendOutOfMemory,
    BackendUnavailable,
    BatchRejected,
)
from penstock.protos.messages import message
from redis_servers import becomes

# Answers that are no answer


@pytest.mark.parametrize(
    ("values", "tensor", "says"),
    [
        ([b"a"], {}, "expected 2 outputs, found the shape [1]"),
        ([b"a", b"b", b"c"], {}, "expected 2 outputs, found the shape [3]"),
        ([b"a"], {"shape": [2]}, "expected 2 outputs, found 1 in the shape [2]"),
        ([b"a", b"b"], {"shape": [2, 2]}, "expected 2 outputs, found 2 in the shape [2, 2]"),
        ([b"a", b"b"], {"shape": []}, "expected 2 outputs, found the shape []"),
        ([b"a", b"b"], {"shape": [2] + [1] * 99}, "expected 2 outputs, found the shape [2, 1,"),
        ([b"a", b"\xff"], {}, "expected text in UTF-8"),
        ([1.0, 2.0], {"datatype": "FP32", "contents": "fp32_contents"}, "expected texts, found FP32"),
        ([b"a", b"b"], {"datatype": "COMPLEX"}, "'COMPLEX' is not a datatype that can be read"),
        ([], {"shape": [2], "raw": raw_texts(b"a", b"b")[:-1]}, "end in the middle of a text"),
        ([], {"shape": [2], "raw": raw_texts(b"a", b"b") + b"\x00"}, "end in the middle of a text"),
        ([], {"shape": [2], "raw": b""}, "expected 2 outputs, found 0"),
    ],
)
def test_an_answer_of_the_wrong_shape_is_a_rejected_batch_that_says_why(
    values: list[Any], tensor: dict[str, Any], says: str
) -> None:
    assert says in rejected(values, "text", **tensor)


@pytest.mark.parametrize(
    ("values", "tensor", "says"),
    [
        ([b"1", b"{"], {}, "expected JSON"),
        ([b"1", b"[" * 100_000 + b"]" * 100_000], {}, "expected JSON"),
        ([1.0, 2.0, 3.0], {"shape": [2, 2]}, "3 values do not fill the shape [2, 2]"),
        ([1.0, 2.0], {"shape": [2, -1, -1]}, "2 values do not fill the shape"),
        ([], {"shape": [2, 0]}, "0 values do not fill the shape [2, 0]"),
        ([1.0, nan], {}, "not a number, which JSON cannot say"),
        ([inf, 1.0], {}, "not a number, which JSON cannot say"),
        ([], {"shape": [2], "raw": b"1234567"}, "end in the middle of a value"),
        ([], {"shape": [2], "datatype": "FP16", "contents": "fp32_contents"}, "'FP16' is not a datatype"),
    ],
)
def test_json_and_numbers_that_do_not_add_up_are_a_rejected_batch(
    values: list[Any], tensor: dict[str, Any], says: str
) -> None:
    numbers = (
        {} if values and isinstance(values[0], bytes) else {"datatype": "FP32", "contents": "fp32_contents"}
    )
    assert says in rejected(values, "json", **{**numbers, **tensor})


def rejected(values: list[Any], output_kind: str, **tensor: Any) -> str:
    async def infer(request: Any, _: Any) -> Any:
        return response_to(request, values, **tensor)

    error = answer(infer, batch_of(b'"x"', b'"y"'), output_kind=output_kind)
    assert isinstance(error, BatchRejected)
    return error.message


def test_an_answer_to_another_request_or_with_other_outputs_is_a_rejected_batch() -> None:
    async def stale(request: Any, _: Any) -> Any:
        request.id = "16"
        return response_to(request, [b"a"])

    async def two(request: Any, _: Any) -> Any:
        response = response_to(request, [b"a"])
        response.outputs.add(name="more", datatype="BYTES", shape=[1])
        return response

    async def half_raw(request: Any, context: Any) -> Any:
        response = await two(request, context)
        response.raw_output_contents.append(raw_texts(b"a"))
        return response

    for infer, shape, says in (
        (stale, GrpcSettings(), "belongs to another request"),
        (two, GrpcSettings(), "these outputs: out, more; say which"),
        (echo, GrpcSettings(output_name="other"), "these outputs: out; expected 'other'"),
        (half_raw, GrpcSettings(output_name="out"), "2 outputs, and contents for 1"),
    ):
        error = answer(infer, batch_of(b'"x"'), shape)
        assert isinstance(error, BatchRejected)
        assert says in error.message


@pytest.mark.parametrize(
    "code", ["INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL", "DEADLINE_EXCEEDED", "CANCELLED"]
)
def test_a_bad_status_is_a_rejected_batch_with_its_first_words_in_the_details(code: str) -> None:
    error = answer(refusing(grpc.StatusCode[code], "out of shape" + "x" * 999), batch_of(b'"x"'))
    assert isinstance(error, BatchRejected)
    assert error.message == f"endpoint answered {code}"
    assert error.details.startswith("out of shape")
    assert len(error.details) < 250


@pytest.mark.parametrize(
    ("code", "said", "kind"),
    [
        ("RESOURCE_EXHAUSTED", "OOM when allocating tensor with shape[64,512]", BackendOutOfMemory),
        ("INTERNAL", "CUDA out of memory", BackendOutOfMemory),
        ("INTERNAL", "no such shelf: x out of memory", BatchRejected),  # the input says so as well
        ("INVALID_ARGUMENT", "CUDA out of memory", BatchRejected),
    ],
)
def test_an_endpoint_that_says_it_is_out_of_memory_has_said_so(
    code: str, said: str, kind: type[BackendError]
) -> None:
    text = b'"x out of memory"' if "shelf" in said else b'"x"'
    error = answer(refusing(grpc.StatusCode[code], said), batch_of(text))
    assert type(error) is kind
    assert error.details == said


def test_an_endpoint_that_is_unavailable_does_not_say_for_how_long() -> None:
    error = answer(refusing(grpc.StatusCode.UNAVAILABLE, "no workers"), batch_of(b'"x"'))
    assert isinstance(error, BackendUnavailable)
    assert (error.message, error.details) == ("endpoint answered UNAVAILABLE", "no workers")


def test_an_endpoint_that_is_full_is_busy() -> None:
    error = answer(refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "queue is full"), batch_of(b'"x"'))
    assert isinstance(error, BackendBusy)
    assert error.message == "endpoint answered RESOURCE_EXHAUSTED: it is busy"
    assert (error.details, error.retry_after) == ("queue is full", None)


@pytest.mark.parametrize("code", ["UNAVAILABLE", "RESOURCE_EXHAUSTED"])
def test_an_endpoint_that_says_how_long_is_busy_for_so_long(code: str) -> None:
    async def refuse(_: Any, context: Any) -> Any:
        info = message("google.rpc.RetryInfo")(retry_delay={"seconds": 2, "nanos": 500_000_000})
        status = message("google.rpc.Status")()
        status.details.add(type_url="type.googleapis.com/google.rpc.ErrorInfo", value=b"")
        status.details.add(
            type_url="type.googleapis.com/google.rpc.RetryInfo", value=info.SerializeToString()
        )
        context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
        await context.abort(grpc.StatusCode[code], "later")

    error = answer(refuse, batch_of(b'"x"'))
    assert isinstance(error, BackendBusy)
    assert error.retry_after == 2.5


def test_nonsense_about_how_long_is_passed_over() -> None:
    assert delay_in([("grpc-status-details-bin", b"\xff\xff")]) is None
    assert delay_in([("grpc-status-details-bin", "text")]) is None
    assert delay_in([]) is None


def test_an_answer_over_the_limit_is_a_rejected_batch() -> None:
    error = answer(echo, batch_of(b'"' + b"x" * 5000 + b'"'), GrpcSettings(max_response=4096))
    assert isinstance(error, BatchRejected)
    assert "grpc.max_response is 4096" in error.message


def test_an_answer_that_is_not_of_the_protocol_is_a_rejected_batch() -> None:
    class Nonsense:
        def SerializeToString(self) -> bytes:  # noqa: N802 - protobuf's name
            return b"\xff\xff\xff"

    async def infer(_: Any, __: Any) -> Any:
        return Nonsense()

    error = answer(infer, batch_of(b'"x"'))
    assert isinstance(error, BatchRejected)
    assert "is not one of the protocol" in error.message


# Coming and going


def test_nobody_listening_is_unavailable_at_start() -> None:
    async def body() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            backend = GrpcBackend(f"grpc://127.0.0.1:{taken.getsockname()[1]}/m", **PATIENT)
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await backend.start()
        with pytest.raises(BackendUnavailable, match="is closed"):
            await backend.run(batch_of(b'"x"'))

    asyncio.run(body())


def test_a_server_of_something_else_is_unavailable_and_says_so() -> None:
    async def body() -> None:
        async def talk(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(talk, "127.0.0.1", 0)
        async with server:
            url = f"grpc://127.0.0.1:{server.sockets[0].getsockname()[1]}/m"
            with pytest.raises(BackendUnavailable, match="cannot be reached"):
                await GrpcBackend(url, **PATIENT).start()
        other = grpc.aio.server()
        port = other.add_insecure_port("127.0.0.1:0")
        await other.start()
        try:
            with pytest.raises(BackendUnavailable, match="does not speak the Open Inference Protocol"):
                await GrpcBackend(f"grpc://127.0.0.1:{port}/m", **PATIENT).start()
        finally:
            await other.stop(None)

    asyncio.run(body())


def test_a_probe_says_when_the_model_is_not_ready_or_the_answer_does_not_come() -> None:
    async def missing(context: Any) -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such model")

    async def never(_: Any) -> None:
        await asyncio.get_running_loop().create_future()

    async def body() -> None:
        for service, seconds, says in (
            (Service(ready=False), 60.0, "says that 'm' is not ready"),
            (Service(readiness=missing), 60.0, "with NOT_FOUND: no such model"),
            (Service(readiness=never), 0.1, "health probe within 0.1 s"),
        ):
            async with serving(service) as url:
                with pytest.raises(BackendUnavailable, match=says):
                    await GrpcBackend(url, probe_timeout=seconds).start()

    asyncio.run(body())


def test_an_endpoint_that_goes_away_between_batches_is_unavailable_and_serves_when_it_is_back() -> None:
    async def body() -> None:
        port = free_port()  # none that the system could give to another while the endpoint is away
        async with AsyncExitStack() as endpoint:
            url = await endpoint.enter_async_context(serving(Service(), port=port))
            async with backend_for(url) as backend:
                await backend.run(batch_of(b'"x"'))
                await endpoint.aclose()
                await loss_noticed(backend)
                with pytest.raises(BackendUnavailable):
                    await backend.run(batch_of(b'"x"'))
                await endpoint.enter_async_context(serving(Service(), port=port))
                await backend.close()
                await backend.start()
                assert (await backend.run(batch_of(b'"y"'))).outputs == [b'"y"']

    asyncio.run(body())


def test_a_line_cut_between_batches_is_made_again_and_the_model_asked_for_first() -> None:
    async def body() -> None:
        service = Service()
        async with serving(service) as url, line_to(url) as line, backend_for(line.url) as backend:
            await backend.run(batch_of(b'"x"'))
            line.cut()
            await loss_noticed(backend)
            service.asked.clear()
            assert (await backend.run(batch_of(b'"y"'))).outputs == [b'"y"']
            assert service.asked == ["ModelReady", "ModelInfer"]

    asyncio.run(body())


def test_a_connection_cut_with_the_batch_in_hand_is_a_crash() -> None:
    """The endpoint had the batch, and may have died of it."""

    async def body() -> None:
        async def cut(_: Any, context: Any) -> Any:
            line.cut()
            return await hang(_, context)

        async with serving(Service(cut)) as url, line_to(url) as line, backend_for(line.url) as backend:
            with pytest.raises(BackendCrashed, match="gave no answer"):
                await backend.run(batch_of(b'"x"'))

    asyncio.run(body())


def test_a_connection_cut_in_the_middle_of_the_answer_is_a_crash() -> None:
    """Wherever it is cut: between all of the answers and none of them, no cut looks like anything else."""

    async def body() -> None:
        long = b'"' + b"x" * 5000 + b'"'
        seen: set[type[BackendError]] = set()
        async with serving(Service()) as url:
            for most in range(600, 5400, 400):  # the start takes less, the whole answer takes more
                async with line_to(url, answers=most) as line, backend_for(line.url) as backend:
                    with pytest.raises(BackendError) as caught:
                        await backend.run(batch_of(long))
                    seen.add(type(caught.value))
        assert seen == {BackendCrashed}

    asyncio.run(body())


def test_a_server_that_stops_with_the_batch_in_hand_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_backend, "_SETTLED", 60.0)

    async def body() -> None:
        taken = asyncio.Event()

        async def infer(_: Any, context: Any) -> Any:
            taken.set()
            return await hang(_, context)

        async with AsyncExitStack() as endpoint:
            url = await endpoint.enter_async_context(serving(Service(infer)))
            async with backend_for(url) as backend:
                batch = asyncio.create_task(backend.run(batch_of(b'"x"')))
                await taken.wait()
                await endpoint.aclose()
                with pytest.raises(BackendCrashed):
                    await batch

    asyncio.run(body())


def test_closing_under_a_batch_is_an_error_of_the_backend_and_not_a_cancellation() -> None:
    async def body() -> None:
        taken = asyncio.Event()

        async def infer(_: Any, context: Any) -> Any:
            taken.set()
            return await hang(_, context)

        async with serving(Service(infer)) as url, backend_for(url) as backend:
            batch = asyncio.create_task(backend.run(batch_of(b'"x"')))
            await taken.wait()
            await backend.close()
            with pytest.raises(BackendUnavailable, match="was closed"):
                await batch

    asyncio.run(body())


# Time


def test_an_endpoint_that_hangs_is_cut_by_cancelling_and_the_next_batch_is_clean() -> None:
    async def body() -> None:
        taken, cut = asyncio.Event(), asyncio.Event()

        async def infer(request: Any, context: Any) -> Any:
            taken.set()
            try:
                return await hang(request, context)
            finally:
                cut.set()

        service = Service(infer)
        async with serving(service) as url, backend_for(url) as backend:
            batch = asyncio.create_task(backend.run(batch_of(b'"old"')))
            await taken.wait()
            batch.cancel()
            with pytest.raises(asyncio.CancelledError):
                await batch
            service.infer = echo
            assert (await backend.run(batch_of(b'"new"'))).outputs == [b'"new"']
            await cut.wait()  # the endpoint was told that nobody waits any more

    asyncio.run(asyncio.wait_for(body(), 60))


def test_a_second_batch_at_the_same_time_is_refused() -> None:
    async def body() -> None:
        async with serving(Service(hang)) as url, backend_for(url) as backend:
            first = asyncio.create_task(backend.run(batch_of(b'"1"')))
            await asyncio.sleep(0)
            with pytest.raises(BatchRejected, match="one batch at a time"):
                await backend.run(batch_of(b'"2"'))
            first.cancel()
            with pytest.raises(asyncio.CancelledError):
                await first

    asyncio.run(body())


@pytest.mark.parametrize("runner", [asyncio.run, uvloop.run])
def test_hundreds_of_cancelled_batches_leak_no_connection_no_task_and_no_descriptor(runner: Any) -> None:
    async def body() -> None:
        tasks = asyncio.all_tasks()
        taken, left = asyncio.Event(), asyncio.Event()
        held = 0

        async def infer(request: Any, context: Any) -> Any:
            nonlocal held
            held += 1
            taken.set()
            try:
                return await hang(request, context)
            finally:
                held -= 1
                left.set()

        service = Service(infer)
        async with serving(service) as url, backend_for(url) as backend:
            gc.collect()  # what others have left is not to go meanwhile
            before = psutil.Process().num_fds()
            for turn in range(300):
                taken.clear()
                task = asyncio.create_task(backend.run(batch_of(b'"x"')))
                await (taken.wait() if turn % 10 else asyncio.sleep(0))  # every tenth may not have gone yet
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
            while held:
                left.clear()
                await left.wait()
            await becomes(lambda: psutil.Process().num_fds() == before)
            service.infer = echo
            await backend.run(batch_of(b'"x"'))
        await becomes(lambda: asyncio.all_tasks() == tasks)

    runner(asyncio.wait_for(body(), 60))


def test_the_connection_is_kept_from_batch_to_batch_and_is_not_shared() -> None:
    async def body() -> None:
        peers: list[str] = []

        async def infer(request: Any, context: Any) -> Any:
            peers.append(context.peer())
            return await echo(request, context)

        async with (
            serving(Service(infer)) as url,
            backend_for(url) as backend,
            backend_for(url) as other,
        ):
            for _ in range(20):
                await backend.run(batch_of(b'"x"'))
            await other.run(batch_of(b'"x"'))
        assert len(set(peers[:20])) == 1
        assert peers[20] not in peers[:20]

    asyncio.run(body())
