"""`--batch-sizes` at a real server: what a function sees, what askers get, and what is counted."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from server import PATIENT, eventually, running

# All but the first batch take until the test opens the gate: which batches are formed does not depend on how fast
# anything is.
APP = """
import os, time

def sized(inputs):
    while "first" not in inputs and not os.path.exists({gate!r}):
        time.sleep(0.01)
    if "poison" in inputs:
        raise ValueError("poison")
    return [[len(inputs), text] for text in inputs]
"""


def test_a_function_sees_an_allowed_size_and_each_asker_gets_one_answer(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    (tmp_path / "app.py").write_text(APP.format(gate=str(gate)))
    with running(f"{tmp_path}/app.py:sized", "--batch-sizes", "powers", config=PATIENT) as server:
        assert server.post("/v1/inference", {"input": "first"}).json()["output"] == [1, "first"]
        with ThreadPoolExecutor(6) as pool:
            held = pool.submit(server.post, "/v1/inference", {"input": "held"})
            eventually(lambda: server.metric("penstock_batched_requests_total", model="sized") == 2)
            others = [pool.submit(server.post, "/v1/inference", {"input": text}) for text in "abcde"]
            eventually(lambda: server.health()["queue_depth"] == 5)
            gate.touch()
            assert held.result().json()["output"] == [1, "held"]
            answers = [other.result().json() for other in others]
        assert [answer["output"] for answer in answers] == [[8, text] for text in "abcde"]
        assert {answer["metadata"]["batch_size"] for answer in answers} == {5}
        assert server.metric("penstock_padding_total", model="sized") == 3
        assert server.metric("penstock_batched_requests_total", model="sized") == 7
        health = server.health()["models"]["sized"]
        assert health["batch_sizes"] == [1, 2, 4, 8, 16, 32, 64]
        assert health["padded_share"] == pytest.approx(0.3, rel=0.01)  # of 1, 1 and 8


def test_one_bad_input_fails_alone_also_where_it_is_the_one_that_is_repeated(tmp_path: Path) -> None:
    gate = tmp_path / "open"
    gate.touch()
    (tmp_path / "app.py").write_text(APP.format(gate=str(gate)))
    texts = ["a", "b", "c", "d", "poison"]
    with running(f"{tmp_path}/app.py:sized", "--batch-sizes", "1,6", config=PATIENT) as server:
        with ThreadPoolExecutor(5) as pool:
            asked = [pool.submit(server.post, "/v1/inference", {"input": text}) for text in texts]
            answers = [each.result() for each in asked]
        assert [answer.status for answer in answers] == [200, 200, 200, 200, 502]
        assert [answer.json()["output"][1] for answer in answers[:-1]] == texts[:-1]
        assert {answer.json()["output"][0] for answer in answers[:-1]} <= {1, 6}
