# mypy: disable-error-code="import-not-found, import-untyped, no-any-return, no-untyped-call, misc"
"""The models that `benchmarks.gpu` serves, with random weights: how long a batch takes does not depend on them.

The function makes one when it is loaded. The parts that need torch import it when they are called, so that the load
and the tables need none.
"""

from dataclasses import dataclass, replace
from typing import Any

OUTPUTS = 4  # numbers for each input: enough to see that the answer is of this input, and little to carry


@dataclass(frozen=True, slots=True)
class Shape:
    """A model as it is served: an input is a text, and each of its bytes is a token or one value of a pixel."""

    name: str
    title: str
    length: int  # bytes of one input
    max_batch: int
    layers: int
    hidden: int
    heads: int
    side: int = 0  # of a square image, in pixels; 0: a text

    @property
    def sizes(self) -> list[int]:
        """The powers of two up to the largest batch."""
        return [2**power for power in range(self.max_batch.bit_length())]

    def tiny(self) -> "Shape":
        """The same with next to nothing to compute, for a try on a machine without a GPU."""
        side = 32 if self.side else 0
        return replace(
            self,
            title=f"{self.title}, tiny",
            length=3 * side * side or 32,
            max_batch=16,
            layers=2,
            hidden=64,
            heads=4,
            side=side,
        )


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("bert", "BERT-base, 128 tokens", 128, 256, layers=12, hidden=768, heads=12),
        Shape("large", "BERT-large, 512 tokens", 512, 64, layers=24, hidden=1024, heads=16),
        Shape("vit", "ViT-B/16, 224 × 224", 3 * 224 * 224, 128, layers=12, hidden=768, heads=12, side=224),
    )
}


def example(length: int) -> str:
    """An input of this length."""
    words = "the water waits behind the gate until the turbine has room for it; "
    return (words * (length // len(words) + 1))[:length]


def build(shape: Shape) -> Any:
    """A module from bytes, a row for each input, to `OUTPUTS` numbers for each. The weights are always the same."""
    import torch

    torch.manual_seed(0)
    core = image_model(shape) if shape.side else text_model(shape)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = core

        def forward(self, rows: Any) -> Any:
            return self.core(rows)[:, 0, :OUTPUTS].float()

    return Model().eval()


def text_model(shape: Shape) -> Any:
    """BERT from transformers, or the same shape in plain torch where that is not installed."""
    import torch

    try:
        from transformers import BertConfig, BertModel
    except ImportError:
        return plain_text_model(shape)
    config = BertConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        max_position_embeddings=shape.length,
    )

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.bert = BertModel(config, add_pooling_layer=False)

        def forward(self, rows: Any) -> Any:
            return self.bert(input_ids=rows.long()).last_hidden_state

    return Text()


def plain_text_model(shape: Shape) -> Any:
    import torch

    layer = torch.nn.TransformerEncoderLayer(
        shape.hidden, shape.heads, 4 * shape.hidden, activation="gelu", batch_first=True
    )

    class Text(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = torch.nn.Embedding(256, shape.hidden)
            self.places = torch.nn.Parameter(torch.randn(shape.length, shape.hidden))
            self.layers = torch.nn.TransformerEncoder(layer, shape.layers, enable_nested_tensor=False)

        def forward(self, rows: Any) -> Any:
            return self.layers(self.tokens(rows.long()) + self.places)

    return Text()


def image_model(shape: Shape) -> Any:
    import torch
    from transformers import ViTConfig, ViTModel

    config = ViTConfig(
        hidden_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        intermediate_size=4 * shape.hidden,
        image_size=shape.side,
    )

    class Image(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.vit = ViTModel(config, add_pooling_layer=False)

        def forward(self, rows: Any) -> Any:
            weights = next(self.vit.parameters())
            pixels = rows.view(-1, 3, shape.side, shape.side).to(weights.dtype).div_(255.0)
            return self.vit(pixel_values=pixels).last_hidden_state

    return Image()
