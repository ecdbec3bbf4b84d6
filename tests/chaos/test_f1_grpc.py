"""Thousands of generated calls of gRPC, good, spoilt and random, and bytes that are no HTTP/2: no INTERNAL, no
hang, no traceback; what is good is answered, and the server serves on."""

import random
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from grpc_calls import INFER, INFERENCE, STREAM, address_of, asked, channel_to
from penstock.protos.messages import message
from server import HUNG, running
from test_f1_contract_fuzz import check_nothing_is_left

CONFIG = """
[models.text]
target = "{folder}/numbers.py:numbers"
input = "text"
default = true
[models.any]
target = "{folder}/numbers.py:numbers"
[limits]
max_asks = 64
# What may come in is the question here, not how soon it is answered, on a slow machine too.
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""
FUNCTION = "def numbers(inputs, **options):\n    return [[0.5] for each in inputs]\n"
MODEL_INFER, MODEL_STREAM = f"/{INFERENCE}/ModelInfer", f"/{INFERENCE}/ModelStreamInfer"
TELLING = [
    f"/{INFERENCE}/ServerLive",
    f"/{INFERENCE}/ModelReady",
    f"/{INFERENCE}/ModelMetadata",
    "/grpc.health.v1.Health/Check",
]
OURS = {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.UNAVAILABLE}
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Maker:
    """Makes one message after the other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def call(self) -> tuple[str, bytes, bool]:
        """Returns the method, the message, and whether the call is good."""
        chance = self._chance
        path = chance.choice([INFER, INFER, MODEL_INFER, MODEL_INFER, *TELLING])
        said = self.native() if path == INFER else self.tensors() if path == MODEL_INFER else b""
        good = path in (INFER, MODEL_INFER)
        if chance.random() < 0.5:
            return path, self.spoilt(said), False
        return path, said, good

    def native(self) -> bytes:
        chance = self._chance
        fields: dict[str, Any] = {"text": chance.choice(["", "a", "größer", "x" * 3000])}
        if chance.random() < 0.4:
            fields = {"json": chance.choice([b"1", b'"a"', b'{"a": [1]}']), "model": "any"}
        elif chance.random() < 0.3:
            fields = {"octets": chance.randbytes(20), "model": "any"}
        said: bytes = asked(id=f"i{chance.randint(0, 999)}", timeout_ms=50_000, **fields).SerializeToString()
        return said

    def tensors(self) -> bytes:
        chance = self._chance
        rows = chance.randint(1, 4)
        said = message("inference.ModelInferRequest")(model_name=chance.choice(["text", "any"]))
        said.id = f"i{chance.randint(0, 999)}"
        tensor = said.inputs.add(name="a", datatype="BYTES", shape=[rows])
        if said.model_name == "any" and chance.random() < 0.5:
            tensor.datatype = "FP32"
            tensor.shape.append(2)
            if chance.random() < 0.5:
                tensor.contents.fp32_contents.extend([0.5] * (2 * rows))
            else:
                said.raw_input_contents.append(bytes(8 * rows))
        else:
            tensor.contents.bytes_contents.extend([b"text"] * rows)
        content: bytes = said.SerializeToString()
        return content

    def spoilt(self, said: bytes) -> bytes:
        chance = self._chance
        if not said or chance.random() < 0.2:
            return chance.randbytes(chance.randint(0, 60))
        at = chance.randrange(len(said))
        changed = bytes([chance.randrange(256)])
        return chance.choice(
            [said[:at], said[:at] + changed + said[at + 1 :], said[:at] + changed + said[at:]]
        )


@pytest.mark.timeout(1800)
def test_no_call_of_grpc_is_the_server_s_fault(tmp_path: Path, chaos_long: bool, chaos_seed: int) -> None:
    chance = random.Random(chaos_seed)
    maker = Maker(chance)
    calls = [maker.call() for _ in range(10_000 if chaos_long else 500)]
    streams = [
        (
            path,
            [make() if chance.random() < 0.7 else maker.spoilt(make()) for _ in range(chance.randint(0, 20))],
        )
        for path, make in [(STREAM, maker.native), (MODEL_STREAM, maker.tensors)]
        * (500 if chaos_long else 20)
    ]
    noises = [
        chance.choice([b"", PREFACE, b"POST / HTTP/1.1\r\n\r\n"]) + chance.randbytes(chance.randint(1, 400))
        for _ in range(1000 if chaos_long else 50)
    ]
    (tmp_path / "numbers.py").write_text(FUNCTION)
    config = CONFIG.replace("{folder}", str(tmp_path))
    with running(None, "--grpc-port", "0", config=config) as server:
        with channel_to(server) as channel, ThreadPoolExecutor(8) as pool:

            def send(call: tuple[str, bytes, bool]) -> None:
                path, said, good = call
                answer = channel.unary_unary(path, None, None).future(said, timeout=HUNG)
                code = answer.code()
                assert code is grpc.StatusCode.OK or not good, (call, answer.details())
                assert code not in OURS, (call, answer.details())

            def stream(call: tuple[str, list[bytes]]) -> None:
                path, said = call
                answers = list(channel.stream_stream(path, None, None)(iter(said), timeout=HUNG))
                assert len(answers) == len(said), call

            def shout(noise: bytes) -> None:
                host, _, port = address_of(server).rpartition(":")
                with socket.create_connection((host, int(port)), HUNG) as line:
                    line.sendall(noise)
                    line.shutdown(socket.SHUT_WR)
                    try:
                        while line.recv(65536):
                            pass
                    except ConnectionResetError:
                        pass

            list(pool.map(send, calls))
            list(pool.map(stream, streams))
            list(pool.map(shout, noises))
        assert server.metric("penstock_refused_requests_total", model="", code="INTERNAL") == 0
        check_nothing_is_left(server, "text")
