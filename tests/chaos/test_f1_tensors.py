"""Thousands of generated requests of the Open Inference Protocol, good, spoilt and random, over HTTP: no 5xx,
no hang, no traceback; what is good is answered, and what is refused is refused in the protocol's shape."""

import json
import random
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from server import Answer, running
from test_f1_contract_fuzz import check_nothing_is_left

CONFIG = """
[models.text]
target = "{folder}/numbers.py:numbers"
input = "text"
default = true
[models.any]
target = "{folder}/numbers.py:numbers"
[models.plain]
target = "sim:1ms"
input = "json"
output = "json"
[limits]
max_asks = 64
# What may come in is the question here, not how soon it is answered, on a slow machine too.
[timeouts]
queue = "60s"
processing = "60s"
request = "60s"
"""
FUNCTION = "def numbers(inputs, **options):\n    return [[0.5] for each in inputs]\n"
LETTERS = {
    "BOOL": "?", "UINT8": "B", "UINT16": "H", "UINT32": "I", "UINT64": "Q", "INT8": "b", "INT16": "h", "INT32": "i",
    "INT64": "q", "FP32": "f", "FP64": "d",
}  # fmt: skip
STRANGE: list[Any] = [
    None,
    -1,
    0,
    2**40,
    2**70,
    1.5,
    True,
    "",
    "x",
    [],
    [[]],
    {},
    {"a": 1},
    "\ud7ff",
    [1, "a"],
]


class Maker:
    """Makes one request after the other."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def request(self) -> tuple[str, bytes, dict[str, str], bool]:
        """Returns the model, the body, the head, and whether the request is good."""
        chance = self._chance
        model = chance.choice(["text", "any", "plain"])
        rows = chance.randint(1, 4)
        number = 1 if model == "text" else chance.randint(1, 3)
        tensors = [self._tensor(model, rows, each) for each in range(number)]
        said: dict[str, Any] = {"inputs": [tensor for tensor, _ in tensors]}
        if chance.random() < 0.3:
            said["id"] = "an id"
        if chance.random() < 0.3:
            said["parameters"] = {"binary_data_output": chance.random() < 0.5, "timeout": 50_000_000}
        if model != "plain" and chance.random() < 0.2:  # an echo has outputs of other names
            said["outputs"] = [{"name": "output", "parameters": {"binary_data": chance.random() < 0.5}}]
        binary = b"".join(content for _, content in tensors)
        good = True
        if chance.random() < 0.5:
            good = False  # or perhaps good by chance: it must not be the server's fault
            self._spoil(said)
        head = json.dumps(said).encode()
        if chance.random() < 0.1:
            good, head = False, self._cut(head)
        if chance.random() < 0.1 and binary:
            good, binary = False, self._cut(binary)
        length = len(head)
        if chance.random() < 0.05:
            good, length = False, chance.choice([0, 1, length - 1, length + 1, 10**12])
        fields = {"content-type": "application/octet-stream"} if chance.random() < 0.5 else {}
        if binary or length != len(head) or chance.random() < 0.2:
            fields["inference-header-content-length"] = str(length)
        elif fields:
            fields = {}
        return model, head + binary, fields, good

    def _tensor(self, model: str, rows: int, number: int) -> tuple[dict[str, Any], bytes]:
        chance = self._chance
        datatype = "BYTES" if model == "text" or chance.random() < 0.3 else chance.choice(list(LETTERS))
        inner = [] if model == "text" else [chance.randint(1, 3) for _ in range(chance.randint(0, 3))]
        shape, count = [rows, *inner], rows
        for size in inner:
            count *= size
        values = [self._value(datatype) for _ in range(count)]
        said: dict[str, Any] = {"name": f"input {number}", "shape": shape, "datatype": datatype}
        if chance.random() < 0.5:
            said["data"] = values
            return said, b""
        if datatype == "BYTES":
            elements = [value.encode() for value in values]
            content = b"".join(struct.pack("<I", len(each)) + each for each in elements)
        else:
            content = struct.pack(f"<{count}{LETTERS[datatype]}", *values)
        said["parameters"] = {"binary_data_size": len(content)}
        return said, content

    def _value(self, datatype: str) -> Any:
        chance = self._chance
        if datatype == "BYTES":
            return chance.choice(["", "a", "größer", "a longer text", '{"a": 1}'])
        if datatype == "BOOL":
            return chance.random() < 0.5
        return chance.random() * 8 // 1 / 2 if datatype.startswith("FP") else chance.randint(0, 100)

    def _spoil(self, said: dict[str, Any]) -> None:
        """Put something strange into some place."""
        place: Any = said
        while isinstance(place, dict | list) and place:
            key = self._chance.choice(list(place) if isinstance(place, dict) else range(len(place)))
            if not isinstance(place[key], dict | list) or self._chance.random() < 0.3:
                if isinstance(place, dict) and self._chance.random() < 0.2:
                    del place[key]
                else:
                    place[key] = self._chance.choice(STRANGE)
                return
            place = place[key]

    def _cut(self, data: bytes) -> bytes:
        at = self._chance.randrange(len(data))
        return self._chance.choice(
            [data[:at], data[:at] + bytes([self._chance.randrange(256)]) + data[at + 1 :]]
        )


@pytest.mark.timeout(1800)
def test_no_tensors_are_the_server_s_fault(tmp_path: Path, chaos_long: bool, chaos_seed: int) -> None:
    maker = Maker(random.Random(chaos_seed))
    requests = [maker.request() for _ in range(10_000 if chaos_long else 400)]
    (tmp_path / "numbers.py").write_text(FUNCTION)
    with running(config=CONFIG.replace("{folder}", str(tmp_path))) as server:

        def send(request: tuple[str, bytes, dict[str, str], bool]) -> Answer:
            model, body, fields, _ = request
            return server.call("POST", f"/v2/models/{model}/infer", body, fields)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(send, requests))
        for request, answer in zip(requests, answers, strict=True):
            assert answer.status < 500, (request, answer.body)
            if request[3]:
                assert answer.status == 200, (request, answer.body)
            if answer.status != 200:
                assert set(answer.json()) == {"error"}, (request, answer.body)
        assert sum(request[3] for request in requests) > len(requests) / 4
        assert server.metric("penstock_refused_requests_total", model="", code="INTERNAL") == 0
        check_nothing_is_left(server, "text")
