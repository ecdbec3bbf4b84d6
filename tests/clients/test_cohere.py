"""Cohere's own client, of both versions of its interface."""

from pathlib import Path

import pytest
from environments import run

from server import PATIENT, running

APP = """
from penstock import Output

def score(pairs):
    words = [[set(text.split()) for text in pair] for pair in pairs]
    return [Output(len(query & document) / len(query), tokens_used=2) for query, document in words]
"""


@pytest.mark.timeout(900)
def test_cohere_s_client_ranks_documents(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(APP)
    with running(f"{app}:score", config=PATIENT) as server:
        said = run("cohere", server.url)
    best, day, worst = [1, 1.0], [2, pytest.approx(1 / 3)], [0, pytest.approx(1 / 3)]
    made, results, version, tokens = said["second"]
    assert (made.startswith("rerank-"), results, version, tokens) == (True, [best, worst], "2", 6)
    assert said["first"] == [[best, worst, day], ["what a good day", "a bad night", "day"]]
    assert said["first, without"] == [best, worst, day]
    assert said["no model"] == ["NotFoundError", "no model 'nobody'; this server has score"]
    assert said["top_n"][0] == "BadRequestError"
    assert "'top_n' must be a whole number" in said["top_n"][1]
