"""Long streams of gRPC, and streams of large messages, as grpcio's own client speaks them."""

import threading
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from grpc_calls import INFERENCE, STREAM, asked, channel_to, stream
from penstock.protos.messages import message
from server import HUNG, PATIENT, Server, running

IN_FLIGHT = 64
MESSAGES = 10_000  # ten times what a client may send of frames that ask for nothing, if no answer earned more
# One batch holds all that is in flight, so that many answers go out together.
SLOW = ("sim:5ms", "--max-batch", str(IN_FLIGHT), "--grpc-port", "0")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with running(*SLOW, config=PATIENT) as server:
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
