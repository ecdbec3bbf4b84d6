"""What langchain's OpenAIEmbeddings get from `/v1/embeddings`, as one line of JSON. Runs in an environment of its
own (`environments.py`). Argument: the URL. Nothing but the server is connected to."""

import asyncio
import json
import socket
import sys
from typing import Any

import tiktoken
import tiktoken.registry
from langchain_openai import OpenAIEmbeddings

TEXTS = ["a", "a good day"]
connect = socket.socket.connect


def connect_here(self: socket.socket, address: Any) -> None:
    assert self.family == socket.AF_UNIX or address[0] == "127.0.0.1", f"it wants to connect to {address}"
    connect(self, address)


def know_bytes() -> None:
    """Makes a tokenizer known that needs no table from elsewhere: each byte is a token."""
    ranks = {bytes([number]): number for number in range(256)}
    made = tiktoken.Encoding("bytes", pat_str=r"[\s\S]", mergeable_ranks=ranks, special_tokens={})
    tiktoken.registry.ENCODINGS["bytes"] = made
    tiktoken.model.MODEL_TO_ENCODING["bytes"] = "bytes"


def asked(url: str) -> dict[str, Any]:
    given: Any = {"base_url": f"{url}/v1", "api_key": "any", "max_retries": 0}
    texts = OpenAIEmbeddings(model="embed", check_embedding_ctx_length=False, **given)
    said: dict[str, Any] = {}
    said["documents"] = texts.embed_documents(TEXTS)
    said["query"] = texts.embed_query("a good day")
    said["async"] = asyncio.run(texts.aembed_documents(TEXTS))
    said["many"] = len(texts.embed_documents(TEXTS * 1500))  # it sends 1,000 in one call
    tokens = OpenAIEmbeddings(model="count", tiktoken_model_name="bytes", **given)
    said["tokens"] = tokens.embed_documents(TEXTS)
    try:
        OpenAIEmbeddings(model="embed", tiktoken_model_name="bytes", **given).embed_query("a")
    except Exception as error:
        said["tokens for a model of texts"] = [type(error).__name__, str(error)]
    return said


know_bytes()
socket.socket.connect = connect_here  # type: ignore[method-assign, assignment]
print(json.dumps(asked(sys.argv[1])))
