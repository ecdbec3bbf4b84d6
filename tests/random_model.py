# mypy: disable-error-code="import-not-found, import-untyped"
"""Writes a BERT with random weights and a tokenizer into a folder, as Hugging Face keeps them, for machines that
cannot download a model. Its vectors mean nothing; it takes as long as a trained one.

    python tests/random_model.py FOLDER            # the size of all-MiniLM-L6-v2
    python tests/random_model.py FOLDER --tiny     # next to nothing to compute
    EMBEDDING_MODEL=FOLDER penstock serve          # in examples/embedding
"""

import argparse
import string
from pathlib import Path

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = string.ascii_lowercase + string.digits + string.punctuation


def write_model(folder: Path, *, tiny: bool = False) -> None:
    import torch
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder.mkdir(parents=True, exist_ok=True)
    words = [*SPECIAL, *LETTERS, *(f"##{letter}" for letter in LETTERS)]  # a token for each letter
    vocabulary = folder / "vocab.txt"
    vocabulary.write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizerFast(str(vocabulary))
    tokenizer.save_pretrained(folder)
    hidden, layers, heads = (32, 1, 2) if tiny else (384, 6, 12)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
    )
    BertModel(config).save_pretrained(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tiny", action="store_true")
    chosen = parser.parse_args()
    write_model(chosen.folder, tiny=chosen.tiny)
