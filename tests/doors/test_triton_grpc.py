"""gRPC, asked by Triton's own client: unary calls and a stream."""

import queue
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import tritonclient.grpc as triton
from tritonclient.utils import InferenceServerException

from grpc_calls import address_of
from server import HUNG, PATIENT, Server, running

APP = """
def shout(texts):
    return [text.upper() for text in texts]

def doubled(inputs):
    return [each * 2 for each in inputs]
"""
CONFIG = """
[retries]
attempts = 1
[models.shout]
target = "{app}:shout"
input = "text"
[models.doubled]
target = "{app}:doubled"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = tmp_path_factory.mktemp("triton") / "app.py"
    app.write_text(APP)
    with running(None, "--grpc-port", "0", config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    with triton.InferenceServerClient(address_of(server)) as client:
        yield client


def tensor(array: Any, datatype: str) -> Any:
    made = triton.InferInput("given", list(array.shape), datatype)
    made.set_data_from_numpy(array)
    return made


def text(*texts: str) -> Any:
    return tensor(numpy.array(texts, dtype=numpy.object_), "BYTES")


def test_it_finds_the_server_and_its_models_alive(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shout")
    assert client.get_server_metadata().name == "penstock"
    assert client.get_model_metadata("shout").inputs[0].datatype == "BYTES"


def test_texts_and_numbers_come_back_as_arrays(client: Any) -> None:
    answer = client.infer("shout", [text("a", "größer")], request_id="7", client_timeout=HUNG)
    assert [each.decode() for each in answer.as_numpy("output")] == ["A", "GRÖSSER"]
    assert answer.get_response().id == "7"
    array = numpy.arange(6, dtype=numpy.int32).reshape(2, 3)
    wanted = [triton.InferRequestedOutput("twice")]
    answer = client.infer("doubled", [tensor(array, "INT32")], outputs=wanted, client_timeout=HUNG)
    assert answer.as_numpy("twice").tolist() == (array * 2).tolist()


def test_what_is_wrong_is_its_exception(client: Any) -> None:
    with pytest.raises(InferenceServerException, match="no model 'nobody'") as refused:
        client.infer("nobody", [text("a")])
    assert refused.value.status() == "StatusCode.NOT_FOUND"


def test_a_stream_answers_each_request_with_its_id(client: Any) -> None:
    heard: queue.SimpleQueue[tuple[Any, Any]] = queue.SimpleQueue()
    client.start_stream(lambda result, error: heard.put((result, error)))
    for number in range(20):
        client.async_stream_infer(
            "shout", [text(f"t{number}")], request_id=f"r{number}", enable_empty_final_response=True
        )
    client.async_stream_infer("nobody", [text("a")], request_id="wrong")
    answers = [heard.get(timeout=HUNG) for _ in range(21)]
    client.stop_stream()
    good = {
        each.get_response().id: each.as_numpy("output")[0].decode()
        for each, error in answers
        if error is None
    }
    assert good == {f"r{number}": f"T{number}" for number in range(20)}
    [error] = [error for _, error in answers if error is not None]
    assert "no model 'nobody'" in str(error)
