"""What litellm gets from the doors for OpenAI's clients, as one line of JSON. Runs in an environment of its own
(`environments.py`). Argument: the URL."""

import asyncio
import json
import os
import sys
from typing import Any

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks GitHub for the prices of models

import litellm
import openai

# A provider's name goes before the model's: of `openai/` completions are chats, of `text-completion-openai/` not.
EMBED, COMPLETE, CHAT = "openai/embed", "text-completion-openai/complete", "openai/complete"
TEXTS = ["a", "a good day"]


def vectors(made: Any) -> list[Any]:
    return [each["embedding"] for each in made.data]


def asked(url: str) -> dict[str, Any]:
    given = {"api_base": f"{url}/v1", "api_key": "any", "num_retries": 0}
    said: dict[str, Any] = {}
    made = litellm.embedding(model=EMBED, input=TEXTS, **given)
    said["embedding"] = [vectors(made), made.usage.total_tokens]
    made = litellm.embedding(model=EMBED, input=TEXTS, encoding_format="float", **given)
    said["as float"] = vectors(made)
    said["async"] = vectors(asyncio.run(litellm.aembedding(model=EMBED, input=TEXTS[:1], **given)))
    made = litellm.text_completion(model=COMPLETE, prompt=TEXTS, max_tokens=7, **given)
    said["prompts"] = [[choice.text for choice in made.choices], made.usage.total_tokens]
    message = [{"role": "user", "content": "a good day"}]
    made = litellm.completion(model=COMPLETE, messages=message, **given)
    said["message"] = made.choices[0].message.content
    refused: list[tuple[str, Any, dict[str, Any]]] = [
        ("no model", litellm.embedding, {"model": "openai/nobody", "input": "a"}),
        ("chat", litellm.completion, {"model": CHAT, "messages": message}),
    ]
    for name, call, wrong in refused:
        try:
            call(**wrong, **given)
        except openai.APIStatusError as error:
            said[name] = [type(error).__name__, str(error)]
    return said


print(json.dumps(asked(sys.argv[1])))
