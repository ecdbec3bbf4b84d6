"""aiperf, NVIDIA's load generator, at the doors for OpenAI's clients."""

from pathlib import Path

import pytest
from environments import run

from server import PATIENT, running

APP = """
from penstock import Output

def embed(texts):
    return [Output([len(text), 0.5], tokens_used=len(text)) for text in texts]

def complete(texts, max_tokens=0):
    return [Output("x" * max_tokens, tokens_used=max_tokens) for text in texts]
"""
CONFIG = f"""{PATIENT}
[models.embed]
target = "FOLDER/app.py:embed"

[models.complete]
target = "FOLDER/app.py:complete"
"""


@pytest.mark.timeout(900)
def test_aiperf_measures_embeddings_and_completions(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with running(config=CONFIG.replace("FOLDER", str(tmp_path))) as server:
        said = run("aiperf", server.url, str(tmp_path))
    for kind in ("embeddings", "completions"):
        assert (said[kind]["answered"], said[kind]["errors"], said[kind]["read"]) == (20, [], 20), said
    assert (said["completions"]["written"], said["completions"]["counted"]) == (6, 120), said
