"""gRPC on a port of its own, as grpcio's own client speaks it."""

import asyncio
import json
import queue
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from certificates import Authority
from grpc_calls import (
    INFERENCE,
    METHODS,
    NATIVE,
    address_of,
    asked,
    channel_to,
    details_of,
    infer,
    method,
    stream,
    trailers_of,
)
from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from penstock.doors.grpc.status import STATUS_OF
from penstock.errors import STATUS_BY_CODE
from penstock.protos.messages import message
from server import HUNG, PATIENT, Server, eventually, held, running

ANY_PORT = ("--grpc-port", "0")
APP = """
from penstock import Output

def look(inputs, **options):
    return [Output([repr(each), sorted(options.items())], tokens_used=3) for each in inputs]

def shout(inputs):
    if "bad" in inputs:
        raise ValueError("a bad text")
    return [text.upper() for text in inputs]

def octets(inputs):
    return [each * 2 for each in inputs]
"""
CONFIG = """
[retries]
attempts = 1
[models.shout]
target = "{app}:shout"
input = "text"
default = true
[models.look]
target = "{app}:look"
[models.octets]
target = "{app}:octets"
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("grpc") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(None, *ANY_PORT, config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with channel_to(server) as channel:
        yield channel


def status_of(error: "pytest.ExceptionInfo[grpc.RpcError]") -> tuple[Any, str]:
    return error.value.code(), str(error.value.details())


# ---- one message -------------------------------------------------------------------------------------------


def test_a_call_has_one_input_and_one_output(channel: grpc.Channel) -> None:
    answer = infer(channel, text="größer", id="mine")
    assert (answer.text, answer.id, answer.model) == ("GRÖSSER", "mine", "shout")
    assert answer.request_id
    assert answer.batch_size >= 1
    assert answer.latency_ms >= answer.queue_ms >= 0
    answer = infer(channel, json=b'{"a": [1, 2]}', model="look", parameters='{"top_k": 3}')
    assert json.loads(answer.json) == ["{'a': [1, 2]}", [["top_k", 3]]]
    assert answer.tokens_used == 3
    assert infer(channel, octets=b"\xff\0", model="octets").octets == b"\xff\0\xff\0"


def test_many_at_once_share_batches(channel: grpc.Channel) -> None:
    infer_one = method(channel, f"/{NATIVE}/Infer")
    calls = [infer_one.future(asked(text=f"text {number}"), timeout=HUNG) for number in range(100)]
    answers = [call.result() for call in calls]
    assert [answer.text for answer in answers] == [f"TEXT {number}" for number in range(100)]


def test_a_large_message_goes_both_ways(channel: grpc.Channel) -> None:
    text = "x" * 900_000
    assert infer(channel, text=text).text == text.upper()


def test_the_request_has_the_id_and_the_trace_that_its_metadata_say(channel: grpc.Channel) -> None:
    trace = "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"
    call = method(channel, f"/{NATIVE}/Infer")
    answer, made = call.with_call(
        asked(text="a"), metadata=[("x-request-id", "my-id"), ("traceparent", trace)], timeout=HUNG
    )
    trailers = dict(made.trailing_metadata())
    assert answer.request_id == trailers["x-request-id"] == "my-id"
    assert trailers["traceparent"] == trace


def test_a_call_with_an_idempotency_key_is_executed_once(channel: grpc.Channel) -> None:
    call, key = method(channel, f"/{NATIVE}/Infer"), [("idempotency-key", "once")]
    first, made = call.with_call(asked(text="a"), metadata=key, timeout=HUNG)
    again, replayed = call.with_call(asked(text="a"), metadata=key, timeout=HUNG)
    assert first.request_id == again.request_id
    assert "idempotency-replayed" not in trailers_of(made)
    assert trailers_of(replayed)["idempotency-replayed"] == "true"
    with pytest.raises(grpc.RpcError) as other:
        call(asked(text="b"), metadata=key, timeout=HUNG)
    assert other.value.code() is grpc.StatusCode.ALREADY_EXISTS


# ---- streams -----------------------------------------------------------------------------------------------


def test_a_stream_brings_each_answer_with_its_id(channel: grpc.Channel) -> None:
    """More of them than may be in flight: the client waits, and loses none."""
    number = 1000
    answers = list(stream(channel)((asked(id=f"r{n}", text=f"t{n}") for n in range(number)), timeout=HUNG))
    assert len(answers) == number
    assert {answer.id: answer.answer.text for answer in answers} == {f"r{n}": f"T{n}" for n in range(number)}


def test_what_fails_in_a_stream_is_told_with_its_id_and_the_stream_goes_on(channel: grpc.Channel) -> None:
    said = [
        asked(id="ok", text="a"),
        asked(id="nobody", text="a", model="nobody"),
        asked(id="nothing"),
        asked(id="failed", text="bad"),
        asked(id="no id", text="a"),
        asked(id="end", text="b"),
    ]
    # One by one: a bad text fails those in its batch that it is not told from.
    answers = {}
    for each in said:
        [answer] = stream(channel)(iter([each]), timeout=HUNG)
        answers[each.id] = answer
    assert answers["ok"].answer.text == "A"
    assert answers["end"].answer.text == "B"
    assert (answers["nobody"].id, answers["nobody"].error.code) == ("nobody", "NOT_FOUND")
    assert answers["nothing"].error.message == "there is no input: set 'text', 'json' or 'octets'"
    assert (answers["failed"].id, answers["failed"].error.code) == ("failed", "BACKEND_FAILED")
    assert "'id' must be" in answers["no id"].error.message


def test_a_stream_answers_while_it_is_open(channel: grpc.Channel) -> None:
    said: queue.SimpleQueue[Any] = queue.SimpleQueue()
    answers = stream(channel)(iter(said.get, None), timeout=HUNG)
    for text in ("one", "two", "three"):
        said.put(asked(id=text, text=text))
        assert next(answers).answer.text == text.upper()
    said.put(None)
    assert list(answers) == []
    assert answers.code() is grpc.StatusCode.OK


# ---- deadlines and cancelling ------------------------------------------------------------------------------


def test_a_call_whose_deadline_passes_leaves_the_queue(tmp_path: Path) -> None:
    with (
        running(held(tmp_path), *ANY_PORT, "--max-batch", "1", config=PATIENT) as server,
        channel_to(server) as channel,
    ):
        first = method(channel, f"/{NATIVE}/Infer").future(asked(text="a"), timeout=HUNG)
        eventually(lambda: bool(server.health()["waiting_clients"] == 1))
        with pytest.raises(grpc.RpcError) as late:
            infer(channel, text="b", timeout=0.3)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        with pytest.raises(grpc.RpcError) as own:
            infer(channel, text="c", timeout_ms=300)
        assert own.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert "timeout_ms" in str(own.value.details())
        eventually(lambda: bool(server.health()["waiting_clients"] == 1))
        server.open()
        assert first.result().text == "a"


def test_a_call_that_is_cancelled_leaves_the_queue(tmp_path: Path) -> None:
    with (
        running(held(tmp_path), *ANY_PORT, "--max-batch", "1", config=PATIENT) as server,
        channel_to(server) as channel,
    ):
        call = method(channel, f"/{NATIVE}/Infer")
        first = call.future(asked(text="a"), timeout=HUNG)
        eventually(lambda: bool(server.health()["waiting_clients"] == 1))
        others = [call.future(asked(text=f"b{n}"), timeout=HUNG) for n in range(5)]
        streamed = stream(channel)((asked(text=f"c{n}") for n in range(5)), timeout=HUNG)
        eventually(lambda: bool(server.health()["waiting_clients"] == 11))
        for each in others:
            each.cancel()
        streamed.cancel()
        eventually(lambda: bool(server.health()["waiting_clients"] == 1))
        assert server.health()["queue_depth"] == 0
        server.open()
        assert first.result().text == "a"


# ---- what goes wrong ---------------------------------------------------------------------------------------


def test_every_error_code_has_a_status() -> None:
    assert STATUS_BY_CODE.keys() == STATUS_OF.keys()
    assert all(0 < status <= 16 for status in STATUS_OF.values())


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        (
            {"text": "a", "model": "nobody"},
            grpc.StatusCode.NOT_FOUND,
            "no model 'nobody'; this server has look",
        ),
        ({"json": b"{"}, grpc.StatusCode.INVALID_ARGUMENT, "'json' is not JSON"),
        ({"json": b"[1]"}, grpc.StatusCode.INVALID_ARGUMENT, "this model takes text"),
        ({"octets": b"a"}, grpc.StatusCode.INVALID_ARGUMENT, "takes no bytes"),
        (
            {"text": "a", "parameters": "[]"},
            grpc.StatusCode.INVALID_ARGUMENT,
            "'parameters' must be an object",
        ),
        ({"text": "bad"}, grpc.StatusCode.INTERNAL, "a bad text"),
        ({"text": "ä" * 600_000}, grpc.StatusCode.RESOURCE_EXHAUSTED, "limits.max_body is 1048576 bytes"),
    ],
)
def test_what_is_wrong_is_said(
    channel: grpc.Channel, fields: dict[str, Any], code: grpc.StatusCode, words: str
) -> None:
    with pytest.raises(grpc.RpcError) as wrong:
        infer(channel, **fields)
    assert wrong.value.code() is code, wrong.value
    assert words in str(wrong.value.details())
    assert details_of(wrong.value)["ErrorInfo"].domain == "penstock"
    assert trailers_of(wrong.value)["x-request-id"]


def test_what_is_no_call_of_ours_is_refused(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as strange:
        channel.unary_unary("/strange.Service/Method", None, None)(b"", timeout=HUNG)
    assert strange.value.code() is grpc.StatusCode.UNIMPLEMENTED
    with pytest.raises(grpc.RpcError) as nonsense:
        channel.unary_unary(f"/{NATIVE}/Infer", None, None)(b"\xff\xff", timeout=HUNG)
    assert status_of(nonsense) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "the message is not penstock.v1.InferRequest",
    )
    with pytest.raises(grpc.RpcError) as packed:
        method(channel, f"/{NATIVE}/Infer")(
            asked(text="a" * 10_000), compression=grpc.Compression.Gzip, timeout=HUNG
        )
    assert packed.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_message_that_is_too_large_ends_its_stream(channel: grpc.Channel) -> None:
    answers = stream(channel)(iter([asked(text="x" * 2**21)]), timeout=HUNG)
    with pytest.raises(grpc.RpcError) as large:
        list(answers)
    assert large.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert infer(channel, text="a").text == "A"


def test_an_overloaded_server_says_when_to_try_again(tmp_path: Path) -> None:
    config = PATIENT + "[limits]\nmax_queue = 1\n"
    with (
        running(held(tmp_path), *ANY_PORT, "--max-batch", "1", config=config) as server,
        channel_to(server) as channel,
    ):
        call = method(channel, f"/{NATIVE}/Infer")
        waiting = [call.future(asked(text="a"), timeout=HUNG) for _ in range(8)]

        def refused() -> list[Any]:
            return [each.exception() for each in waiting if each.done()]

        eventually(lambda: bool(refused()))
        error = refused()[0]
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        told = details_of(error)
        assert told["ErrorInfo"].reason == "SERVICE_OVERLOADED"
        delay = told["RetryInfo"].retry_delay
        seconds = delay.seconds + delay.nanos / 1e9
        assert seconds > 0
        assert int(dict(error.trailing_metadata())["grpc-retry-pushback-ms"]) >= seconds * 1e3
        server.open()


# ---- who asks ----------------------------------------------------------------------------------------------


def test_keys_come_as_metadata(app: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    key, record = make_key("acme", "free", time.time())
    asyncio.run(KeysFile(keys).add(record))
    config = f"""{PATIENT}[auth]
mode = "keys"
keys_file = "{keys}"
[tiers]
default = "free"
[tiers.levels.free]
rank = 2
requests_per_minute = 2
"""
    with running(f"{app}:shout", *ANY_PORT, config=config) as server, channel_to(server) as channel:
        with pytest.raises(grpc.RpcError) as stranger:
            infer(channel, text="a")
        assert stranger.value.code() is grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as unknown:
            list(stream(channel)(iter([asked(text="a")]), timeout=HUNG))
        assert unknown.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert infer(channel, [("authorization", f"Bearer {key}")], text="a").text == "A"
        assert infer(channel, [("x-api-key", key)], text="a").text == "A"
        with pytest.raises(grpc.RpcError) as over:
            infer(channel, [("x-api-key", key)], text="a")
        assert over.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert details_of(over.value)["RetryInfo"].retry_delay.seconds > 0
        check = method(channel, "/grpc.health.v1.Health/Check")
        assert check(message("grpc.health.v1.HealthCheckRequest")(), timeout=HUNG).status == 1


# ---- health and reflection ---------------------------------------------------------------------------------


def test_health_tells_whether_traffic_should_come(channel: grpc.Channel) -> None:
    check, asks = (
        method(channel, "/grpc.health.v1.Health/Check"),
        message("grpc.health.v1.HealthCheckRequest"),
    )
    assert check(asks(), timeout=HUNG).status == 1
    assert check(asks(service=INFERENCE), timeout=HUNG).status == 1
    with pytest.raises(grpc.RpcError) as strange:
        check(asks(service="strange"), timeout=HUNG)
    assert strange.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("version", ["v1", "v1alpha"])
def test_reflection_tells_enough_to_call_a_method(channel: grpc.Channel, version: str) -> None:
    path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
    asks = message(METHODS[path][0])
    said = [
        asks(list_services=""),
        asks(file_containing_symbol=f"{NATIVE}.Infer"),
        asks(file_by_filename="none"),
    ]
    listed, found, missing = stream(channel, path)(iter(said), timeout=HUNG)
    names = {service.name for service in listed.list_services_response.service}
    assert names >= {NATIVE, INFERENCE, "grpc.health.v1.Health"}
    assert missing.error_response.error_code == grpc.StatusCode.NOT_FOUND.value[0]
    pool = descriptor_pool.DescriptorPool()
    for content in found.file_descriptor_response.file_descriptor_proto:
        pool.Add(descriptor_pb2.FileDescriptorProto.FromString(content))
    assert pool.FindServiceByName(NATIVE).methods_by_name["InferStream"].server_streaming


def test_grpcio_s_own_client_of_reflection_finds_the_messages_and_calls_with_them(
    channel: grpc.Channel,
) -> None:
    """As `grpcurl` does: without a file of ours, and without a class of ours."""
    database = ProtoReflectionDescriptorDatabase(channel)
    assert {NATIVE, INFERENCE, "grpc.health.v1.Health"} <= set(database.get_services())
    pool = descriptor_pool.DescriptorPool(database)
    method = pool.FindServiceByName(NATIVE).methods_by_name["Infer"]
    ask, answer = map(message_factory.GetMessageClass, (method.input_type, method.output_type))
    said = channel.unary_unary(
        f"/{NATIVE}/{method.name}", lambda each: bytes(each.SerializeToString()), answer.FromString
    )(ask(text="found out"), timeout=HUNG)
    assert said.text == "FOUND OUT"
    watch = pool.FindServiceByName("grpc.health.v1.Health").methods_by_name["Watch"]
    assert (watch.client_streaming, watch.server_streaming) == (False, True)
    with pytest.raises(KeyError):
        pool.FindServiceByName("made.up.Service")


def test_the_proto_files_are_served(server: Server) -> None:
    listed = server.get("/proto").body.decode().split()
    assert "/proto/penstock.proto" in listed
    for path in listed:
        answer = server.get(path)
        assert answer.headers["content-type"].startswith("text/plain")
        assert b'syntax = "proto3";' in answer.body
    assert server.get("/proto/none").status == 404


# ---- life --------------------------------------------------------------------------------------------------


def test_with_tls_the_certificate_is_the_gateway_s(app: Path, tmp_path: Path) -> None:
    authority = Authority()
    pair = authority.issue(tmp_path, "server")
    config = PATIENT + f'[tls]\ncertificate = "{pair.certificate}"\nkey = "{pair.key}"\n'
    credentials = grpc.ssl_channel_credentials(authority.pem)
    with running(f"{app}:shout", *ANY_PORT, config=config) as server:
        with channel_to(server, credentials) as channel:
            assert infer(channel, text="a").text == "A"
            assert len(list(stream(channel)((asked(text="b") for _ in range(50)), timeout=HUNG))) == 50
        with channel_to(server) as bare, pytest.raises(grpc.RpcError) as refused:
            infer(bare, text="a")
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE


def test_a_server_that_stops_answers_what_it_has_and_ends_streams(tmp_path: Path) -> None:
    with running(held(tmp_path), *ANY_PORT, config=PATIENT) as server, channel_to(server) as channel:
        call = method(channel, f"/{NATIVE}/Infer").future(asked(text="a"), timeout=HUNG)
        said: queue.SimpleQueue[Any] = queue.SimpleQueue()
        said.put(asked(id="s", text="b"))
        answers = stream(channel)(iter(said.get, None), timeout=HUNG)
        eventually(lambda: bool(server.health()["waiting_clients"] == 2))
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: "draining" in server.stderr())
        server.open()
        assert call.result().text == "a"
        assert next(answers).answer.text == "b"
        with pytest.raises(grpc.RpcError) as ended:
            next(answers)
        assert status_of(ended) == (grpc.StatusCode.UNAVAILABLE, "this server is shutting down")
        said.put(None)
        assert server.process.wait(HUNG) == 0


def test_a_gateway_stands_behind_another_one(server: Server, app: Path) -> None:
    """The backend for gRPC endpoints asks our own door, as it would Triton."""
    with (
        running(f"grpc://{address_of(server)}/shout", config=PATIENT) as front,
        ThreadPoolExecutor(8) as pool,
    ):
        answers = list(
            pool.map(
                lambda n: front.post("/v1/inference", {"input": f"text {n}"}).json()["output"], range(20)
            )
        )
    assert answers == [f"TEXT {n}" for n in range(20)]


def test_without_a_port_there_is_no_grpc(app: Path) -> None:
    with running(f"{app}:shout", config=PATIENT) as server:
        assert "grpc://" not in "\n".join(server.banner)
