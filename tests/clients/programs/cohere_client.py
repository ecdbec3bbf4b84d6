"""What Cohere's own client gets from `/v1/rerank` and `/v2/rerank`, as one line of JSON. Runs in an environment
of its own (`environments.py`). Argument: the URL."""

import json
import sys
from typing import Any

import cohere
from cohere.core.api_error import ApiError

DOCUMENTS = ["a bad night", "what a good day", "day"]
ASKED: dict[str, Any] = {"model": "score", "query": "a good day", "documents": DOCUMENTS}


def ranked(made: Any) -> list[tuple[int, float]]:
    return [(result.index, result.relevance_score) for result in made.results]


def asked(url: str) -> dict[str, Any]:
    first, second = cohere.Client(api_key="any", base_url=url), cohere.ClientV2(api_key="any", base_url=url)
    said: dict[str, Any] = {}
    made = second.rerank(**ASKED, top_n=2)
    said["second"] = [made.id, ranked(made), made.meta.api_version.version, made.meta.tokens.input_tokens]
    texts = {**ASKED, "documents": [{"text": text} for text in DOCUMENTS]}
    old = first.rerank(**texts, return_documents=True)
    said["first"] = [ranked(old), [result.document.text for result in old.results]]
    said["first, without"] = ranked(first.rerank(**ASKED, return_documents=False))
    for name, wrong in (("no model", {"model": "nobody"}), ("top_n", {"top_n": -1})):
        try:
            second.rerank(**{**ASKED, **wrong})
        except ApiError as error:
            said[name] = [type(error).__name__, error.body["message"]]
    return said


print(json.dumps(asked(sys.argv[1])))
