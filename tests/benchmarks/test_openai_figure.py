"""OpenAI's embeddings are held against the native door, round by round, and each way gives the same vector."""

import base64
import json
import struct
from pathlib import Path

import pytest
from benchmarks.openai_door import BASE64, FLOAT, NATIVE, PATHS, SIZES, Round, Turn

from benchmarks import openai_door
from server import PATIENT, running


def one_round(native: float, packed: float, spelt: float) -> Round:
    return {way: Turn(rate, 20.0, 0) for way, rate in zip(PATHS, (native, packed, spelt), strict=True)}


def test_each_turn_is_held_against_the_native_one_of_its_round_and_size() -> None:
    small = [one_round(100, 70, 90), one_round(200, 180, 190), one_round(1000, 820, 700)]
    large = [one_round(100, 10, 10)] * 3
    figure = openai_door.figure({384: small, 1024: large}, 256)
    assert [check.measured for check in figure.checks] == pytest.approx([0.82, 0.9])
    assert all(check.holds for check in figure.checks)
    assert "The promise is for vectors of 384 numbers." in figure.method


def test_all_ways_ask_for_the_same_vector(tmp_path: Path) -> None:
    function = tmp_path / "vectors.py"
    function.write_text(openai_door.FUNCTION.format(*SIZES))
    config = openai_door.CONFIG.format(*SIZES, file=function)
    with running(config=PATIENT + config) as server:
        for size in SIZES:
            said = {
                way: json.loads(server.call("POST", path, openai_door.body(way, size), {}).body)
                for way, path in PATHS.items()
            }
            vector = said[NATIVE]["output"]
            assert len(vector) == size
            assert said[FLOAT]["data"][0]["embedding"] == vector
            packed = base64.b64decode(said[BASE64]["data"][0]["embedding"])
            assert list(struct.unpack(f"<{size}f", packed)) == vector
