"""langchain's OpenAIEmbeddings, with texts and with tokens."""

from pathlib import Path

import pytest
from environments import run

from server import PATIENT, running

APP = """
def embed(texts):
    return [[len(text), 0.5] for text in texts]

def count(tokens):
    return [[len(each), sum(each)] for each in tokens]
"""
CONFIG = f"""{PATIENT}
[models.embed]
target = "FOLDER/app.py:embed"
input = "text"

[models.count]
target = "FOLDER/app.py:count"
input = "json"
"""


@pytest.mark.timeout(900)
def test_langchain_embeds_texts_and_tokens(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    with running(config=CONFIG.replace("FOLDER", str(tmp_path))) as server:
        said = run("langchain", server.url)
    vectors = [[1.0, 0.5], [10.0, 0.5]]
    assert (said["documents"], said["query"], said["async"]) == (vectors, vectors[1], vectors)
    assert said["many"] == 3000
    assert said["tokens"] == [[len(text), sum(text)] for text in (b"a", b"a good day")]
    name, words = said["tokens for a model of texts"]
    assert name == "BadRequestError"
    assert "'input' must be text: this model takes no tokens" in words
