"""`/v2`, asked by Triton's own client: binary tensors in and out by default, JSON by choice."""

from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import tritonclient.http as triton
from tritonclient.utils import InferenceServerException

from server import PATIENT, Server, running

APP = """
import numpy

def shout(texts):
    return [text.upper() for text in texts]

def scaled(inputs, factor=2):
    return [(each * factor).sum(axis=0) for each in inputs]

def both(inputs):
    return [{"text": each["text"], "mean": float(each["image"].mean())} for each in inputs]
"""
CONFIG = """
[retries]
attempts = 1
[models.shout]
target = "{app}:shout"
input = "text"
[models.scaled]
target = "{app}:scaled"
[models.both]
target = "{app}:both"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    app = tmp_path_factory.mktemp("triton") / "app.py"
    app.write_text(APP)
    with running(config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


@pytest.fixture
def client(server: Server) -> Iterator[Any]:
    client = triton.InferenceServerClient(server.url.removeprefix("http://"), concurrency=4)
    yield client
    client.close()


def tensor(name: str, array: Any, datatype: str, *, binary: bool = True) -> Any:
    made = triton.InferInput(name, list(array.shape), datatype)
    made.set_data_from_numpy(array, binary_data=binary)
    return made


def test_it_finds_the_server_and_its_models_alive(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    assert client.is_model_ready("shout")
    assert client.is_model_ready("shout", "1")
    assert client.get_server_metadata()["name"] == "penstock"
    assert client.get_model_metadata("shout")["inputs"][0]["datatype"] == "BYTES"


@pytest.mark.parametrize("binary", [True, False])
def test_texts_come_back_as_texts(client: Any, binary: bool) -> None:
    texts = numpy.array(["a", "größer"], dtype=numpy.object_)
    wanted = [triton.InferRequestedOutput("answer", binary_data=binary)]
    answer = client.infer(
        "shout", [tensor("text", texts, "BYTES", binary=binary)], outputs=wanted, request_id="7"
    )
    got = [text.decode() if isinstance(text, bytes) else text for text in answer.as_numpy("answer")]
    assert got == ["A", "GRÖSSER"]
    assert answer.get_response()["id"] == "7"
    assert answer.get_response()["parameters"]["batch_size"] >= 1


@pytest.mark.parametrize("binary", [True, False])
def test_numbers_reach_the_function_as_arrays_and_come_back_as_arrays(client: Any, binary: bool) -> None:
    array = numpy.arange(12, dtype=numpy.float32).reshape(2, 2, 3)
    given = [tensor("image", array, "FP32", binary=binary)]
    answer = client.infer("scaled", given, parameters={"factor": 3})
    assert answer.as_numpy("output").tolist() == (array * 3).sum(axis=1).tolist()


def test_several_inputs_and_an_output_for_each_name(client: Any) -> None:
    image = numpy.full((2, 4, 4), 7, dtype=numpy.uint8)
    texts = numpy.array(["a", "b"], dtype=numpy.object_)
    answer = client.infer("both", [tensor("text", texts, "BYTES"), tensor("image", image, "UINT8")])
    assert answer.as_numpy("mean").tolist() == [7.0, 7.0]
    assert answer.as_numpy("text").tolist() == [b"a", b"b"]


def test_many_at_once_share_batches(client: Any) -> None:
    texts = [numpy.array([f"text {number}"], dtype=numpy.object_) for number in range(32)]
    asked = [client.async_infer("shout", [tensor("text", text, "BYTES")]) for text in texts]
    got = [each.get_result().as_numpy("output")[0].decode() for each in asked]
    assert got == [f"TEXT {number}" for number in range(32)]


def test_what_is_wrong_is_its_exception(client: Any) -> None:
    texts = numpy.array(["a"], dtype=numpy.object_)
    with pytest.raises(InferenceServerException, match="no model 'nobody'; this server has both") as refused:
        client.infer("nobody", [tensor("text", texts, "BYTES")])
    assert refused.value.status() == "404"
    with pytest.raises(InferenceServerException, match="this model takes text"):
        client.infer("shout", [tensor("text", numpy.ones((1, 2), numpy.float32), "FP32")])
