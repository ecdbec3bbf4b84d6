"""litellm, at the doors for OpenAI's clients."""

from pathlib import Path

import pytest
from environments import run

from server import PATIENT, running

APP = """
from penstock import Output

def embed(texts):
    return [Output([len(text), 0.5], tokens_used=len(text.split())) for text in texts]

def complete(texts, max_tokens=None):
    return [Output(f"{text}, {max_tokens}", tokens_used=2) for text in texts]
"""
CONFIG = f"""{PATIENT}
[models.embed]
target = "FOLDER/app.py:embed"

[models.complete]
target = "FOLDER/app.py:complete"
"""


@pytest.mark.timeout(900)
def test_litellm_embeds_and_completes(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with running(config=CONFIG.replace("FOLDER", str(tmp_path))) as server:
        said = run("litellm", server.url)
    vectors = [[1.0, 0.5], [10.0, 0.5]]
    assert said["embedding"] == [vectors, 4]
    assert (said["as float"], said["async"]) == (vectors, vectors[:1])
    assert said["prompts"] == [["a, 7", "a good day, 7"], 4]
    assert said["message"].endswith(", None")
    assert said["no model"][0] == said["chat"][0] == "NotFoundError"
    assert "no model 'nobody'; this server has complete, embed" in said["no model"][1]
