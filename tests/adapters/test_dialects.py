"""Endpoints of a kind that is known: what they are asked, and what their answers mean."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web
from endpoint_kit import Page, endpoint
from http_kit import PATIENT, batch_of

from penstock.adapters.backends.dialects.openai import OpenAI, shared_out
from penstock.adapters.backends.dialects.tei import Tei
from penstock.adapters.backends.http import HttpBackend
from penstock.errors import BackendBusy, BackendError, BackendUnavailable, BatchRejected, UserMistake
from penstock.types import Batch, Result


def run(
    kind: str, batch: Batch, output: str = "auto", path: str = "", **pages: Page
) -> tuple[Result | BackendError, list[Any]]:
    async def scene() -> tuple[Result | BackendError, list[Any]]:
        async with endpoint(**pages) as (url, posted):
            dialect = Tei(url + path) if kind == "tei" else OpenAI(url + path, output)
            backend = HttpBackend(dialect.url, None, dialect, **PATIENT)
            try:
                await backend.start()
                return await backend.run(batch), posted
            except BackendError as error:
                return error, posted
            finally:
                await backend.close()

    return asyncio.run(scene())


def models(*names: str) -> Page:
    return lambda _: {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


def embedded(order: Callable[[list[Any]], list[Any]] = list, **more: object) -> Page:
    def page(said: Any) -> object:
        data = [{"index": i, "embedding": [float(len(text)), i]} for i, text in enumerate(said["input"])]
        return {"object": "list", "data": order(data), **more}

    return page


def of(result: Result | BackendError) -> Result:
    assert isinstance(result, Result), result
    return result


def test_the_only_model_is_asked_for_embeddings() -> None:
    result, posted = run("openai", batch_of(b'"a"', b'"bb"'), models=models("bge"), embeddings=embedded())
    assert posted == [{"model": "bge", "input": ["a", "bb"], "encoding_format": "float"}]
    assert [json.loads(output) for output in of(result).outputs] == [[1.0, 0], [2.0, 1]]


def test_embeddings_go_by_their_index() -> None:
    backwards = embedded(lambda data: data[::-1])
    result, _ = run("openai", batch_of(b'"a"', b'"bb"', b'"ccc"'), models=models("m"), embeddings=backwards)
    assert [json.loads(output)[0] for output in of(result).outputs] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    "order",
    [
        lambda data: data[:1],
        lambda data: [*data, data[0]],
        lambda data: [data[0], data[0]],
        lambda data: [data[0], {**data[1], "index": 2}],
        lambda data: [data[0], {**data[1], "index": -1}],
        lambda data: [data[0], {"embedding": [1.0]}],
        lambda data: [data[0], {"index": 1}],
        lambda data: [data[0], {"index": 1, "embedding": "AAAA"}],
        lambda data: [data[0], {"index": "1", "embedding": [1.0]}],
    ],
)
def test_an_answer_that_is_not_one_embedding_for_each_is_refused(
    order: Callable[[list[Any]], list[Any]],
) -> None:
    error, _ = run("openai", batch_of(b'"a"', b'"b"'), models=models("m"), embeddings=embedded(order))
    assert isinstance(error, BatchRejected)


def test_without_any_index_they_go_as_they_come() -> None:
    page = embedded(lambda data: [{"embedding": each["embedding"]} for each in data])
    result, _ = run("openai", batch_of(b'"a"', b'"bb"'), models=models("m"), embeddings=page)
    assert [json.loads(output)[0] for output in of(result).outputs] == [1.0, 2.0]


def test_the_tokens_of_a_call_are_shared_out_by_length() -> None:
    page = embedded(usage={"prompt_tokens": 10, "total_tokens": 10})
    result, _ = run("openai", batch_of(b'"aa"', b'"bbbbbb"', b'""'), models=models("m"), embeddings=page)
    notes = [output.partition(b"\x1e")[2] for output in of(result).outputs]
    assert notes == [b'"tokens_used":2\x1e', b'"tokens_used":6\x1e', b'"tokens_used":2\x1e']


@pytest.mark.parametrize(
    ("total", "weights"), [(10, [4, 8, 2]), (7, [1, 1, 1]), (0, [3]), (5, [0, 0]), (1, [9, 9])]
)
def test_shares_are_whole_and_add_up(total: int, weights: list[int]) -> None:
    shares = shared_out(total, weights)
    assert min(shares) >= 0
    assert sum(shares) == (total if sum(weights) else 0)


def completed(said: Any) -> object:
    choices = [
        {"index": i, "text": f"{text}!", "finish_reason": "length", "logprobs": None}
        for i, text in enumerate(said["prompt"])
    ]
    return {"choices": choices[::-1], "usage": {"total_tokens": 4}}


def test_completions_take_a_list_of_prompts() -> None:
    batch = batch_of(b'"a"', b'"b"', parameters=b'{"max_tokens":5,"temperature":0}')
    result, posted = run("openai", batch, path="/v1/completions?model=smol", completions=completed)
    assert posted == [{"model": "smol", "prompt": ["a", "b"], "max_tokens": 5, "temperature": 0}]
    assert [output.partition(b"\x1e")[0] for output in of(result).outputs] == [b'"a!"', b'"b!"']


def test_completions_say_why_they_ended_where_json_is_wanted() -> None:
    result, _ = run("openai", batch_of(b'"a"'), "json", "/v1/completions?model=m", completions=completed)
    [output] = of(result).outputs
    assert json.loads(output.partition(b"\x1e")[0]) == {"text": "a!", "finish_reason": "length"}


@pytest.mark.parametrize(
    "parameters", [b'{"model":"other"}', b'{"stream":true}', b'{"n":2}', b'{"input":"x"}']
)
def test_what_penstock_says_no_client_may_say(parameters: bytes) -> None:
    error, posted = run(
        "openai", batch_of(b'"a"', parameters=parameters), models=models("m"), embeddings=embedded()
    )
    assert isinstance(error, BatchRejected)
    assert posted == []


def test_of_several_models_one_must_be_named() -> None:
    error, _ = run("openai", batch_of(b'"a"'), models=models("one", "two"), embeddings=embedded())
    assert isinstance(error, BackendUnavailable)
    assert error.message == "the endpoint has these models: one, two; add ?model=NAME to the target"


def test_an_endpoint_that_lists_no_models_wants_one_named() -> None:
    error, _ = run("openai", batch_of(b'"a"'), embeddings=embedded())
    assert isinstance(error, BackendUnavailable)
    assert "add ?model=NAME to the target" in error.message


def test_a_target_with_other_options_is_a_mistake() -> None:
    for url in ("http://gpu/v1?key=1", "http://gpu/v1?model=a&model=b", "http://gpu/v1#a"):
        with pytest.raises(UserMistake, match="openai://host:port/v1"):
            OpenAI(url, "auto")
    with pytest.raises(UserMistake, match="tei://host:port"):
        Tei("http://gpu/embed?x=1")


@pytest.mark.parametrize(
    ("path", "called"),
    [
        ("", "/v1/embeddings"),
        ("/v1", "/v1/embeddings"),
        ("/v1/embeddings", "/v1/embeddings"),
        ("/v1/completions?model=m", "/v1/completions"),
        ("/a/b/v1/", "/a/b/v1/embeddings"),
    ],
)
def test_a_path_may_end_with_v1_or_with_what_is_called(path: str, called: str) -> None:
    assert OpenAI(f"http://gpu{path}", "auto").url == f"http://gpu{called}"


def too_many(_: Any) -> object:
    return web.json_response({"error": {}}, status=429, headers={"retry-after-ms": "250"})


@pytest.mark.parametrize(("kind", "page"), [("openai", "embeddings"), ("tei", "embed")])
def test_429_is_back_pressure(kind: str, page: str) -> None:
    error, _ = run(kind, batch_of(b'"a"'), models=models("m"), health=lambda _: {}, **{page: too_many})  # type: ignore[arg-type]
    assert isinstance(error, BackendBusy)
    assert error.retry_after == 0.25


def lengths(said: Any) -> object:
    return [[float(len(text))] for text in said["inputs"]]


def test_tei_embeds_and_takes_options() -> None:
    batch = batch_of(b'"a"', b'"bb"', parameters=b'{"normalize":false}')
    result, posted = run(
        "tei", batch, health=lambda _: {}, embed=lengths, info=lambda _: {"model_sha": "abc"}
    )
    assert posted == [{"inputs": ["a", "bb"], "normalize": False}]
    assert (of(result).outputs, of(result).version) == ([b"[1.0]", b"[2.0]"], "abc")


def test_tei_gets_no_more_at_once_than_it_takes() -> None:
    batch = batch_of(*(b'"%d"' % number for number in range(7)))
    info: Page = lambda _: {"max_client_batch_size": 3}  # noqa: E731
    result, posted = run("tei", batch, health=lambda _: {}, embed=lengths, info=info)
    assert [len(said["inputs"]) for said in posted] == [3, 3, 1]
    assert len(of(result).outputs) == 7


def test_tei_that_says_nothing_of_itself_is_asked_all_the_same() -> None:
    for info in ({}, {"info": lambda _: ["nonsense"]}):
        result, _ = run("tei", batch_of(b'"a"'), health=lambda _: {}, embed=lengths, **info)  # type: ignore[arg-type]
        assert of(result).outputs == [b"[1.0]"]


def test_tei_labels_texts_and_pairs_in_one_call() -> None:
    made = [[{"label": "joy", "score": 0.9}], [{"label": "LABEL_0", "score": 0.1}]]
    batch = batch_of(b'"a"', b'["q","d"]', parameters=b'{"raw_scores":true}')
    result, posted = run("tei", batch, path="/predict", health=lambda _: {}, predict=lambda _: made)
    assert posted == [{"inputs": [["a"], ["q", "d"]], "raw_scores": True}]
    assert [json.loads(output) for output in of(result).outputs] == made


def test_tei_is_not_asked_to_rank_since_that_takes_one_query() -> None:
    with pytest.raises(UserMistake, match="/predict"):
        Tei("http://gpu/rerank")


@pytest.mark.parametrize("made", [{"error": "x"}, [[1.0]], [[1.0], [2.0], [3.0]], "text"])
def test_tei_that_does_not_give_one_for_each_is_refused(made: object) -> None:
    error, _ = run("tei", batch_of(b'"a"', b'"b"'), health=lambda _: {}, embed=lambda _: made)
    assert isinstance(error, BatchRejected)


def test_tei_that_is_unwell_is_unavailable() -> None:
    error, _ = run("tei", batch_of(b'"a"'), health=lambda _: web.Response(status=503), embed=lengths)
    assert isinstance(error, BackendUnavailable)


def test_tei_takes_its_inputs_from_us_alone() -> None:
    batch = batch_of(b'"a"', parameters=b'{"inputs":["b"]}')
    error, posted = run("tei", batch, health=lambda _: {}, embed=lengths)
    assert isinstance(error, BatchRejected)
    assert posted == []
