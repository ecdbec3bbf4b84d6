"""Long streams of gRPC, and streams of large messages, as grpcio's own client speaks them."""

import asyncio
import queue
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from grpc_calls import INFERENCE, NATIVE, STREAM, asked, channel_to, infer, method, stream
from penstock.adapters.api_keys.file import KeysFile
from penstock.auth.keys import make_key
from penstock.protos.messages import message
from server import HUNG, PATIENT, Server, eventually, running

IN_FLIGHT = 64
MESSAGES = 10_000  # ten times what a client may send of frames that ask for nothing, if no answer earned more
# One batch holds all that is in flight, so that many answers go out together.
SLOW = ("sim:5ms", "--max-batch", str(IN_FLIGHT), "--grpc-port", "0")
LARGEST = 4_000_000  # bytes of a message; more than the window of a stream, and less than grpcio's own limit
REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    config = f"{PATIENT}[limits]\nmax_body = {LARGEST}\nbody_timeout = '60s'\n"
    with running(*SLOW, config=config) as server:
        yield server


@pytest.fixture
def channel(server: Server) -> Iterator[grpc.Channel]:
    with channel_to(server) as channel:
        yield channel


def native(number: int) -> Any:
    return asked(id=f"r{number}", text=f"t{number}")


def tensors(number: int) -> Any:
    said = message("inference.ModelInferRequest")(model_name="sim", id=f"r{number}")
    tensor = said.inputs.add(name="text", datatype="BYTES", shape=[1])
    tensor.contents.bytes_contents.append(f"t{number}".encode())
    return said


@pytest.mark.parametrize(
    ("path", "make", "id_of"),
    [
        (STREAM, native, lambda answer: answer.answer.id),
        (f"/{INFERENCE}/ModelStreamInfer", tensors, lambda answer: answer.infer_response.id),
    ],
    ids=["InferStream", "ModelStreamInfer"],
)
def test_a_stream_with_ordinary_traffic_goes_on_for_as_long_as_it_likes(
    channel: grpc.Channel, path: str, make: Any, id_of: Any
) -> None:
    """grpcio opens its window again with nearly each answer that it reads."""
    room = threading.Semaphore(IN_FLIGHT)

    def said() -> Iterator[Any]:
        for number in range(MESSAGES):
            room.acquire()
            yield make(number)

    heard = []
    for answer in stream(channel, path)(said(), timeout=HUNG):
        heard.append(id_of(answer))
        room.release()
    assert sorted(heard) == sorted(f"r{number}" for number in range(MESSAGES))


def test_messages_larger_than_the_window_of_a_stream_come_in(channel: grpc.Channel) -> None:
    """Several such streams at once are more than the window of their connection."""
    text, streams, each = "x" * (LARGEST - 1000), 6, 3
    calls = [
        stream(channel)((asked(id=f"r{n}", text=text) for n in range(each)), timeout=HUNG)
        for _ in range(streams)
    ]
    for call in calls:
        answers = list(call)
        assert sorted(answer.id for answer in answers) == [f"r{n}" for n in range(each)]
        assert {answer.answer.text for answer in answers} == {text}


def test_a_message_may_be_as_large_as_the_limit_says(channel: grpc.Channel) -> None:
    around = asked(text="x" * (LARGEST - 100)).ByteSize() - (LARGEST - 100)
    text = "x" * (LARGEST - around)
    assert infer(channel, text=text).batch_size
    with pytest.raises(grpc.RpcError) as beyond:
        infer(channel, text=text + "x")
    assert beyond.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_where_keys_are_asked_for_a_stranger_keeps_no_stream_open(tmp_path: Path) -> None:
    """It says nothing on any of them, so there is nothing to refuse; its client answers pings all the while."""
    keys = tmp_path / "keys.json"
    key, record = make_key("acme", "free", time.time())
    asyncio.run(KeysFile(keys).add(record))
    config = f"""{PATIENT}[auth]
mode = "keys"
keys_file = "{keys}"
[limits]
header_timeout = "1s"
"""
    silence: queue.SimpleQueue[Any] = queue.SimpleQueue()
    with running(*SLOW, config=config) as server, channel_to(server) as channel:
        mine = stream(channel)(iter(silence.get, None), metadata=[("x-api-key", key)], timeout=HUNG)
        silence.put(asked(id="one", text="a"))
        assert next(mine).id == "one"
        for path, status in (
            (STREAM, grpc.StatusCode.UNAUTHENTICATED),
            (REFLECTION, grpc.StatusCode.DEADLINE_EXCEEDED),
        ):
            nothing: queue.SimpleQueue[Any] = queue.SimpleQueue()
            with pytest.raises(grpc.RpcError) as ended:
                list(stream(channel, path)(iter(nothing.get, None), timeout=HUNG))
            assert ended.value.code() is status
        silence.put(asked(id="two", text="a"))  # whose key is known may be silent meanwhile
        assert next(mine).id == "two"
        silence.put(None)
        assert list(mine) == []


def test_both_ports_have_the_connections_of_one_server() -> None:
    config = f"{PATIENT}[server]\nmax_connections = 8\n[limits]\nheader_timeout = '60s'\n"
    with running(*SLOW, config=config) as server, ExitStack() as lines:
        for _ in range(9):
            line = lines.enter_context(socket.create_connection(server.address, HUNG))
            line.sendall(b"GET / ")
        assert b" 503 " in line.recv(100)  # so the others are connected
        with channel_to(server) as channel, pytest.raises(grpc.RpcError) as full:
            infer(channel, text="a")
        assert full.value.code() is grpc.StatusCode.UNAVAILABLE
        lines.close()

        def served() -> bool:
            with channel_to(server) as channel, suppress(grpc.RpcError):
                return bool(infer(channel, text="a").text == "a")
            return False

        eventually(served)


def test_the_door_of_the_open_inference_protocol_can_be_closed() -> None:
    config = PATIENT + "[doors]\nopen_inference = false\n"
    told = message("grpc.reflection.v1.ServerReflectionRequest")
    check = message("grpc.health.v1.HealthCheckRequest")
    with running(*SLOW, config=config) as server, channel_to(server) as channel:
        assert infer(channel, text="a").text == "a"
        with pytest.raises(grpc.RpcError) as one:
            method(channel, f"/{INFERENCE}/ModelInfer")(tensors(1), timeout=HUNG)
        assert one.value.code() is grpc.StatusCode.UNIMPLEMENTED
        silent: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with pytest.raises(grpc.RpcError) as several:  # also while the client says nothing yet
            list(stream(channel, f"/{INFERENCE}/ModelStreamInfer")(iter(silent.get, None), timeout=HUNG))
        assert several.value.code() is grpc.StatusCode.UNIMPLEMENTED
        asks = [
            told(list_services=""),
            told(file_containing_symbol=f"{INFERENCE}.ModelInfer"),
            told(file_by_filename="penstock/inference.proto"),
            told(file_containing_symbol="google.rpc.Status"),
        ]
        listed, *missing, here = stream(channel, REFLECTION)(iter(asks), timeout=HUNG)
        names = {service.name for service in listed.list_services_response.service}
        assert INFERENCE not in names
        assert {NATIVE, "grpc.health.v1.Health"} <= names
        assert [each.error_response.error_code for each in missing] == [
            grpc.StatusCode.NOT_FOUND.value[0]
        ] * 2
        assert len(here.file_descriptor_response.file_descriptor_proto) == 1
        with pytest.raises(grpc.RpcError) as health:
            method(channel, "/grpc.health.v1.Health/Check")(check(service=INFERENCE), timeout=HUNG)
        assert health.value.code() is grpc.StatusCode.NOT_FOUND
