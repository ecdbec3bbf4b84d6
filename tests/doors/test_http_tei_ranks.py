"""`POST /rerank` and `POST /predict`, as clients of Text Embeddings Inference know them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from server import PATIENT, Server, running

APP = """
def judge(inputs, **options):
    return [judged(each, options) for each in inputs]

def judged(each, options):
    if isinstance(each, str):
        if each == "bad":
            raise ValueError("a bad text")
        return {"short": 1 / (1 + len(each)), "long": len(each) / 10}
    query, text = each
    return float(len(set(query) & set(text))) + (100 if options.get("raw_scores") else 0)

def labels(texts):
    return [{"label": "ok", "score": 0.5} for text in texts]

def plain(texts):
    return texts
"""


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("ranks") / "app.py"
    file.write_text(APP)
    return file


@pytest.fixture(scope="module")
def server(app: Path) -> Iterator[Server]:
    limits = "[limits]\nmax_asks = 8\n[retries]\nattempts = 1\n"
    with running(f"{app}:judge", config=PATIENT + limits) as server:
        yield server


def test_texts_are_ranked_the_best_first(server: Server) -> None:
    answer = server.post("/rerank", {"query": "abc", "texts": ["x", "cab", "größer ab"]})
    assert (answer.status, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == [
        {"index": 1, "score": 3.0},
        {"index": 2, "score": 2.0},
        {"index": 0, "score": 0.0},
    ]
    assert answer.headers["x-request-id"]


def test_ranks_come_with_their_texts_if_the_client_says_so(server: Server) -> None:
    said = {"query": "abc", "texts": ["größer \\", "ab"], "return_text": True}
    ranks = [{"index": 1, "text": "ab", "score": 2.0}, {"index": 0, "text": "größer \\", "score": 0.0}]
    assert server.post("/rerank", said).json() == ranks
    one = server.post("/rerank", {"query": "abc", "texts": ["ab"], "return_text": False}).json()
    assert one == [{"index": 0, "score": 2.0}]


def test_a_text_or_a_pair_has_its_labels_the_highest_first(server: Server) -> None:
    for inputs in ("hello", ["hello"]):
        labels = server.post("/predict", {"inputs": inputs}).json()
        assert labels == [{"label": "long", "score": 0.5}, {"label": "short", "score": pytest.approx(1 / 6)}]
    assert server.post("/predict", {"inputs": ["abc", "cab"]}).json() == [{"label": "LABEL_0", "score": 3.0}]


def test_a_list_of_texts_and_pairs_has_the_labels_of_each(server: Server) -> None:
    each = server.post("/predict", {"inputs": [["hello"], ["abc", "cab"], ["hi"]]}).json()
    assert [[made["label"] for made in labels] for labels in each] == [
        ["long", "short"], ["LABEL_0"], ["short", "long"]
    ]  # fmt: skip
    assert len(server.post("/predict", {"inputs": [["hello"]]}).json()[0]) == 2


def test_options_go_on_to_the_model_unless_they_say_what_is_usual(server: Server) -> None:
    usual = {"truncate": False, "truncation_direction": "Right", "raw_scores": False}
    assert server.post("/rerank", {"query": "a", "texts": ["a"], **usual}).json()[0]["score"] == 1.0
    raw = {"raw_scores": True}
    assert server.post("/rerank", {"query": "a", "texts": ["a"], **raw}).json()[0]["score"] == 101.0
    assert server.post("/predict", {"inputs": ["a", "a"], **raw}).json()[0]["score"] == 101.0


@pytest.mark.parametrize(
    ("path", "said", "status", "kind", "words"),
    [
        ("/rerank", {"query": "q", "texts": []}, 400, "Empty", "no input"),
        ("/rerank", {"query": "q", "texts": ["a"] * 9}, 413, "Validation", "limits.max_asks is 8"),
        ("/rerank", {"query": "q", "texts": ["a", 5]}, 422, "Validation", "a list of texts"),
        ("/rerank", {"query": 5, "texts": ["a"]}, 422, "Validation", "'query' must be a text"),
        ("/rerank", {"query": "q", "texts": "a"}, 422, "Validation", "texts"),
        ("/rerank", {"query": "q", "texts": ["a\u0001"]}, 422, "Validation", "U+0001"),
        ("/rerank", {"query": "q", "documents": ["a"]}, 422, "Validation", "documents"),
        ("/predict", {"inputs": []}, 400, "Empty", "no input"),
        ("/predict", {"inputs": ["a", "b", "c"]}, 422, "Validation", "one text or two"),
        ("/predict", {"inputs": [["a"], "b"]}, 422, "Validation", "one text or two"),
        ("/predict", {"inputs": [["a"], []]}, 422, "Validation", "one text or two"),
        ("/predict", {"inputs": ["a", 5]}, 422, "Validation", "one text or two"),
        ("/predict", {"inputs": {"a": 1}}, 422, "Validation", "one text or two"),
        ("/predict", {"inputs": [["a"]] * 9}, 413, "Validation", "limits.max_asks is 8"),
        ("/predict", {"inputs": "a\u0001"}, 422, "Validation", "U+0001"),
        ("/predict", {"inputs": "a", "truncation_direction": "up"}, 422, "Validation", "up"),
        ("/predict", {"inputs": [["a"], ["bad"]]}, 424, "Backend", "bad text"),
    ],
)
def test_what_cannot_be_answered_is_told_in_the_shape_of_the_door(
    server: Server, path: str, said: dict[str, Any], status: int, kind: str, words: str
) -> None:
    answer = server.post(path, said)
    assert (answer.status, answer.json()["error_type"]) == (status, kind)
    assert set(answer.json()) == {"error", "error_type"}
    assert words in answer.json()["error"]


def test_a_model_that_takes_text_alone_labels_texts_and_is_asked_for_no_pairs(app: Path) -> None:
    with running(f"{app}:labels", "--input", "text", config=PATIENT) as server:
        assert server.post("/predict", {"inputs": [["a"], ["b"]]}).json() == [
            [{"label": "ok", "score": 0.5}], [{"label": "ok", "score": 0.5}]
        ]  # fmt: skip
        for path, said in (
            ("/predict", {"inputs": ["a", "b"]}),
            ("/predict", {"inputs": [["a"], ["a", "b"]]}),
            ("/rerank", {"query": "q", "texts": ["a"]}),
        ):
            answer = server.post(path, said)
            assert (answer.status, answer.json()["error_type"]) == (422, "Validation")
            assert 'its setting input must be "json"' in answer.json()["error"]
        paths = server.get("/openapi.json").json()["paths"]
        assert ("/predict" in paths, "/rerank" in paths) == (True, False)


def test_a_model_whose_outputs_hold_no_scores_is_told_so(app: Path) -> None:
    with running(f"{app}:plain", config=PATIENT) as server:
        ranks = server.post("/rerank", {"query": "q", "texts": ["a", "b"]})
        assert (ranks.status, ranks.json()["error_type"]) == (422, "Validation")
        assert "gives no score" in ranks.json()["error"]
        assert "gives no labels" in server.post("/predict", {"inputs": "a"}).json()["error"]


def test_where_no_model_is_meant_by_those_who_name_none_there_are_no_such_doors() -> None:
    several = "[models.a]\ntarget = 'sim:1ms'\n[models.b]\ntarget = 'sim:1ms'\n"
    with running(config=PATIENT + several) as server:
        assert not {"/rerank", "/predict"} & set(server.get("/openapi.json").json()["paths"])
        answer = server.post("/predict", {"inputs": "a"})
        assert (answer.status, answer.json()["error_type"]) == (422, "Validation")
