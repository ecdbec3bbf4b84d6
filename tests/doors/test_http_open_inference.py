"""`/v2`: the Open Inference Protocol, as Triton's and KServe's clients speak it."""

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy
import pytest

from server import PATIENT, Answer, Server, eventually, held, running

APP = """
import numpy
from penstock import Output

def shout(texts):
    return [text.upper() for text in texts]

def look(inputs, **options):
    return [[told(each), str(sorted(options.items()))] for each in inputs]

def told(each):
    if isinstance(each, numpy.ndarray):
        return f"{each.dtype} {each.shape} {each.tolist()}"
    if isinstance(each, dict):
        return str({name: told(value) for name, value in each.items()})
    return repr(each)

def double(inputs):
    return [Output(numpy.asarray(each) * 2, tokens_used=3) for each in inputs]

def parts(inputs):
    return [{"label": text, "score": len(text) / 2} for text in inputs]

def octets(inputs):
    return [each.encode() * 2 for each in inputs]

def mixed(inputs):
    return [{"a": 1}, "text", None, b"bytes"][: len(inputs)]

def fail(inputs):
    raise ValueError("it cannot")
"""
CONFIG = """
[limits]
max_asks = 8
[retries]
attempts = 1
[models.shout]
target = "{app}:shout"
input = "text"
default = true
[models.look]
target = "{app}:look"
[models.double]
target = "{app}:double"
[models.parts]
target = "{app}:parts"
[models.octets]
target = "{app}:octets"
[models.mixed]
target = "{app}:mixed"
[models.fail]
target = "{app}:fail"
[models.plain]
target = "sim:1ms"
input = "json"
output = "json"
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("oip") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    with running(config=PATIENT + CONFIG.format(app=app)) as server:
        yield server


def one(
    data: object, datatype: str = "BYTES", shape: Sequence[int] | None = None, **more: Any
) -> dict[str, Any]:
    size = [len(data)] if shape is None and isinstance(data, list) else list(shape or [])
    return {"inputs": [{"name": "input", "shape": size, "datatype": datatype, "data": data}], **more}


def infer(server: Server, model: str, body: object, headers: dict[str, str] | None = None) -> Answer:
    return server.post(f"/v2/models/{model}/infer", body, headers)


def outputs(answer: Answer) -> dict[str, tuple[str, list[int], Any]]:
    """By its name, the datatype, the shape and the data of each output."""
    assert answer.status == 200, answer.body
    said = answer.json()["outputs"]
    return {each["name"]: (each["datatype"], each["shape"], each["data"]) for each in said}


def in_binary(server: Server, model: str, said: dict[str, Any], *contents: bytes) -> Answer:
    """The inputs' values follow the JSON."""
    for each, content in zip(said["inputs"], contents, strict=True):
        del each["data"]
        each.setdefault("parameters", {})["binary_data_size"] = len(content)
    head = json.dumps(said).encode()
    length = {"inference-header-content-length": str(len(head)), "content-type": "application/octet-stream"}
    return infer(server, model, head + b"".join(contents), length)


def seen(answer: Answer) -> list[str]:
    """What the function `look` was called with."""
    [(_, _, data)] = outputs(answer).values()
    return list(data[::2])


def refusal(answer: Answer, status: int = 400) -> str:
    assert answer.status == status, answer.body
    said = answer.json()
    assert set(said) == {"error"}
    assert answer.headers["x-request-id"]
    return str(said["error"])


# ---- texts -------------------------------------------------------------------------------------------------


def test_each_row_is_a_request_and_the_answer_has_them_in_their_order(server: Server) -> None:
    answer = infer(server, "shout", one(["a", "größer", "c"], id="mine", model_name="shout"))
    assert outputs(answer) == {"output": ("BYTES", [3], ["A", "GRÖSSER", "C"])}
    said = answer.json()
    assert (said["model_name"], said["model_version"], said["id"]) == ("shout", "1", "mine")
    told = said["parameters"]
    assert told["batch_size"] >= 1
    assert told["latency_ms"] >= told["queue_ms"] >= 0
    assert told["inference_ms"] > 0
    assert told["cached"] is False


@pytest.mark.parametrize("shape", [[2], [2, 1]])
def test_a_row_of_one_text_is_that_text(server: Server, shape: list[int]) -> None:
    data = ["a", "b"] if len(shape) == 1 else [["a"], ["b"]]
    assert outputs(infer(server, "shout", one(data, shape=shape)))["output"] == ("BYTES", [2], ["A", "B"])
    assert seen(infer(server, "look", one(["a", "b"], shape=shape))) == ["'a'", "'b'"]


def test_a_row_of_several_texts_is_a_list(server: Server) -> None:
    answer = infer(server, "look", one([["a", "b"], ["c", "d"]], shape=[2, 2]))
    assert seen(answer) == ["['a', 'b']", "['c', 'd']"]
    assert "must be [n] or [n, 1]" in refusal(infer(server, "shout", one(["a", "b"], shape=[1, 2])))


def test_elements_are_json_or_bytes_where_the_tensor_says_so(server: Server) -> None:
    said = one(['{"a": [1]}'], parameters={"content_type": "json"})
    assert seen(infer(server, "look", said)) == [str({"a": "[1]"})]
    said["parameters"] = {"content_type": "bytes"}
    assert seen(infer(server, "look", said)) == [repr(b'{"a": [1]}')]
    said["inputs"][0]["parameters"] = {"content_type": "str"}
    assert seen(infer(server, "look", said)) == [repr('{"a": [1]}')]
    said["inputs"][0]["parameters"] = {"content_type": "pd"}
    assert "content_type" in refusal(infer(server, "look", said))


def test_bytes_that_are_no_text_are_bytes_for_a_function(server: Server) -> None:
    picture = b"\xff\xd8\xff"
    packed = struct.pack("<I", 3) + picture + struct.pack("<I", 2) + b"ok"
    answer = in_binary(server, "look", one(["", ""]), packed)
    assert seen(answer) == [repr(picture), repr(b"ok")]
    assert "takes no bytes" in refusal(in_binary(server, "shout", one(["", ""]), packed))


# ---- numbers -----------------------------------------------------------------------------------------------


NUMBERS = "UINT8 UINT16 UINT32 UINT64 INT8 INT16 INT32 INT64 FP32 FP64"


@pytest.mark.parametrize("datatype", NUMBERS.split())
def test_numbers_reach_a_function_as_arrays_however_they_were_sent(server: Server, datatype: str) -> None:
    kind = datatype.lower().replace("fp", "float")
    array = numpy.arange(6, dtype=kind).reshape(2, 3)
    flat = infer(server, "look", one(array.ravel().tolist(), datatype, [2, 3]))
    rows = infer(server, "look", one(array.tolist(), datatype, [2, 3]))
    binary = in_binary(server, "look", one([], datatype, [2, 3]), array.tobytes())
    expected = [f"{kind} (3,) {row.tolist()}" for row in array]
    assert seen(flat) == seen(rows) == seen(binary) == expected


def test_sixteen_bit_floats_come_in_binary_alone(server: Server) -> None:
    half = numpy.array([[1.5, -2.0]], "<f2").tobytes()
    assert seen(in_binary(server, "look", one([], "FP16", [1, 2]), half)) == ["float16 (2,) [1.5, -2.0]"]
    brain = bytes.fromhex("c03f 00c0")  # 1.5 and -2.0
    assert seen(in_binary(server, "look", one([], "BF16", [1, 2]), brain)) == ["float32 (2,) [1.5, -2.0]"]
    assert "binary only" in refusal(infer(server, "look", one([1.5, -2.0], "FP16", [1, 2])))


def test_bools_and_a_row_of_one_number(server: Server) -> None:
    assert seen(infer(server, "look", one([True, False], "BOOL"))) == ["True", "False"]
    assert seen(infer(server, "look", one([1, 2], "INT32"))) == ["1", "2"]
    assert seen(in_binary(server, "look", one([], "BOOL", [1, 2]), b"\1\0")) == ["bool (2,) [True, False]"]


def test_a_model_that_is_no_function_gets_lists(server: Server) -> None:
    array = numpy.arange(8, dtype="float32").reshape(2, 2, 2) + 0.5
    for answer in (
        infer(server, "plain", one(array.tolist(), "FP32", [2, 2, 2])),
        in_binary(server, "plain", one([], "FP32", [2, 2, 2]), array.tobytes()),
    ):
        assert outputs(answer)["output"] == ("FP64", [2, 2, 2], array.ravel().tolist())
    endless = numpy.array([[numpy.inf, 1.0]], "<f4").tobytes()
    assert "infinite" in refusal(in_binary(server, "plain", one([], "FP32", [1, 2]), endless))


def test_several_inputs_are_one_object_for_each_row(server: Server) -> None:
    said = one(["a", "b"])
    said["inputs"].append({"name": "weights", "shape": [2, 2], "datatype": "FP32", "data": [1, 2, 3, 4]})
    assert seen(infer(server, "look", said)) == [
        str({"input": "'a'", "weights": "float32 (2,) [1.0, 2.0]"}),
        str({"input": "'b'", "weights": "float32 (2,) [3.0, 4.0]"}),
    ]
    assert "one input" in refusal(infer(server, "shout", said))
    said["inputs"][1]["shape"] = [1, 4]
    assert "same number of rows" in refusal(infer(server, "look", said))


# ---- answers -----------------------------------------------------------------------------------------------


def test_numbers_come_back_as_a_tensor_with_the_tokens_used(server: Server) -> None:
    answer = infer(server, "double", one([[1, 2], [3, 4]], "INT64", [2, 2]))
    assert outputs(answer) == {"output": ("INT64", [2, 2], [2, 4, 6, 8])}
    assert answer.json()["parameters"]["tokens_used"] == 6
    answer = infer(server, "double", one([0.25, 0.5], "FP64"))
    assert outputs(answer) == {"output": ("FP64", [2], [0.5, 1.0])}


def test_the_answer_comes_in_binary_where_its_client_asks_for_that(server: Server) -> None:
    answer = infer(
        server, "double", one([[1.5, 2.5]], "FP64", [1, 2], parameters={"binary_data_output": True})
    )
    length = int(answer.headers["inference-header-content-length"])
    assert answer.headers["content-type"] == "application/octet-stream"
    [said] = json.loads(answer.body[:length])["outputs"]
    assert said == {
        "name": "output", "datatype": "FP64", "shape": [1, 2], "parameters": {"binary_data_size": 16},
    }  # fmt: skip
    assert struct.unpack("<2d", answer.body[length:]) == (3.0, 5.0)


def test_names_of_an_object_are_outputs_and_a_client_may_choose(server: Server) -> None:
    wanted = [{"name": "score"}, {"name": "label", "parameters": {"binary_data": True}}]
    answer = infer(server, "parts", one(["one", "four"], outputs=wanted))
    length = int(answer.headers["inference-header-content-length"])
    score, label = json.loads(answer.body[:length])["outputs"]
    assert (score["name"], score["datatype"], score["data"]) == ("score", "FP64", [1.5, 2.0])
    assert label["parameters"] == {"binary_data_size": 15}
    assert answer.body[length:] == b"\3\0\0\0one\4\0\0\0four"
    strange = refusal(infer(server, "parts", one(["one"], outputs=[{"name": "colour"}])))
    assert "gives no output 'colour': it gives label, score" in strange


def test_an_output_without_a_name_takes_the_one_that_it_is_asked_by(server: Server) -> None:
    assert set(outputs(infer(server, "shout", one(["a"], outputs=[{"name": "embedding"}])))) == {"embedding"}


def test_outputs_with_nothing_in_common_come_as_json(server: Server) -> None:
    answer = infer(server, "mixed", one(["a", "b", "c"]))
    assert outputs(answer) == {"output": ("BYTES", [3], ['{"a":1}', "text", "null"])}


def test_bytes_come_in_binary_even_if_not_asked_for(server: Server) -> None:
    answer = infer(server, "octets", one(["ab"]))
    length = int(answer.headers["inference-header-content-length"])
    assert answer.body[length:] == b"\4\0\0\0abab"


# ---- parameters --------------------------------------------------------------------------------------------


def test_parameters_that_are_not_the_protocol_s_go_to_the_model(server: Server) -> None:
    said = one(["a"], parameters={"top_k": 3, "binary_data_output": False, "priority": 1, "sequence_id": 0})
    [(_, _, [_, options])] = outputs(infer(server, "look", said)).values()
    assert options == "[('top_k', 3)]"
    assert "takes no parameters" in refusal(infer(server, "shout", said))
    assert "sequence_id" in refusal(infer(server, "look", one(["a"], parameters={"sequence_id": 7})))


def test_timeout_is_the_deadline_in_microseconds(tmp_path: Path) -> None:
    with running(held(tmp_path), config=PATIENT) as server:
        said = one(["a"], parameters={"timeout": 50_000})
        assert "no answer within" in refusal(infer(server, "batch", said), 504)
        server.open()
        said["parameters"]["timeout"] = 50_000_000
        assert infer(server, "batch", said).status == 200


# ---- what is wrong -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"{", "not JSON"),
        ({"inputs": []}, "no input"),
        ({"input": []}, "unknown field 'input'"),
        (one(["a"], shape=[2]), "do not fill"),
        (one(["a"], shape=[]), "1 to 16"),
        (one(["a"], shape=[1, 0]), "a 0 in it"),
        (one([], shape=[0]), "no input"),
        (one(["a"], "TEXT"), "known are BYTES, BOOL"),
        (one(["a"], "FP32"), "no FP32"),
        (one([1], "BYTES"), "must be strings"),
        (one([256], "UINT8"), "too large"),
        (one([1.5], "INT8"), "no INT8"),
        (one([[1], [2, 3]], "INT8", [2, 1]), "as its shape says"),
        (one(["a"] * 9), "limits.max_asks is 8"),
        (one("a", shape=[1]), "a list of values"),
        ({"inputs": [{"name": "", "shape": [1], "datatype": "BYTES", "data": ["a"]}]}, "name"),
        ({"inputs": one(["a"])["inputs"] * 2}, "same name"),
        ({"inputs": [{"name": "a", "shape": [1], "datatype": "BYTES"}]}, "no 'data'"),
        (one(["a"], parameters={"timeout": "soon"}), "microseconds"),
        (one(["a"], model_name="another"), "those of the path"),
        (one(["a\u0000"]), "control character"),
    ],
)
def test_what_is_wrong_is_said(server: Server, body: object, words: str) -> None:
    answer = infer(server, "look", body)
    assert words in refusal(answer, 413 if "max_asks" in words else 400)


def test_binary_that_does_not_fit_is_refused(server: Server) -> None:
    assert "do not fill" in refusal(in_binary(server, "look", one([], "FP32", [1, 2]), bytes(7)))
    assert "middle of an element" in refusal(in_binary(server, "look", one([], shape=[1]), b"\4\0\0\0abc"))
    assert "neither 0 nor 1" in refusal(in_binary(server, "look", one([], "BOOL", [1, 2]), b"\1\2"))
    head = json.dumps(one(["a"])).encode()
    too_long = {"inference-header-content-length": str(len(head) + 1)}
    assert "must say how many" in refusal(infer(server, "look", head, too_long))
    more = {"inference-header-content-length": str(len(head))}
    assert "1 bytes follow" in refusal(infer(server, "look", head + b"x", more))


def test_what_fails_has_the_shape_that_its_clients_know(server: Server) -> None:
    assert "it cannot" in refusal(infer(server, "fail", one(["a"])), 502)
    assert "no model 'nobody'; this server has" in refusal(infer(server, "nobody", one(["a"])), 404)
    versioned = "/v2/models/shout/versions/{}/infer"
    assert server.post(versioned.format(1), one(["a"])).status == 200
    assert "no version '2'" in refusal(server.post(versioned.format(2), one(["a"])), 404)
    assert "use POST" in refusal(server.get("/v2/models/shout/infer"), 405)


# ---- what the server tells ---------------------------------------------------------------------------------


def test_health_has_a_body_as_kserve_s_client_reads_it(app: Path, tmp_path: Path) -> None:
    with running(held(tmp_path), config=PATIENT) as server:
        assert server.get("/v2/health/live").json() == {"live": True}
        assert server.get("/v2/health/ready").json() == {"ready": True}
        assert server.get("/v2/models/batch/ready").json() == {"name": "batch", "ready": True}
        server.open()


def test_server_and_models_describe_themselves(server: Server) -> None:
    said = server.get("/v2").json()
    assert said["name"] == "penstock"
    assert said["extensions"] == ["binary_tensor_data"]
    for path in ("/v2/models/shout", "/v2/models/shout/versions/1"):
        told = server.get(path).json()
        assert (told["name"], told["versions"]) == ("shout", ["1"])
        assert told["inputs"] == [{"name": "input", "datatype": "BYTES", "shape": [-1]}]
    assert "no model" in refusal(server.get("/v2/models/nobody"), 404)
    assert "no model" in refusal(server.get("/v2/models/nobody/ready"), 404)


def test_a_client_that_leaves_takes_its_rows_along(tmp_path: Path) -> None:
    import socket

    with running(held(tmp_path), "--max-batch", "1", config=PATIENT) as server:
        body = json.dumps(one(["a", "b", "c"])).encode()
        head = f"POST /v2/models/batch/infer HTTP/1.1\r\nhost: a\r\ncontent-length: {len(body)}\r\n\r\n"
        with socket.create_connection(server.address) as client:
            client.sendall(head.encode() + body)
            eventually(lambda: bool(server.health()["waiting_clients"] == 3))
        eventually(lambda: server.health()["queue_depth"] == 0)
        server.open()
        eventually(lambda: server.health()["waiting_clients"] == 0)


def test_the_door_can_be_closed(app: Path) -> None:
    config = PATIENT + "[doors]\nopen_inference = false\n"
    with running(f"{app}:shout", config=config) as server:
        assert server.get("/v2/health/live").status == 404
        assert infer(server, "shout", one(["a"])).status == 404
