# mypy: disable-error-code="import-not-found, no-any-return"
"""The function that everybody serves: texts to the GPU, through the model, a few numbers for each back. Penstock
loads it by its path; the rivals' servers (`servers/`) and `alone` import it.

Written as people write it: nothing is kept between batches, and copies to and from the GPU are part of it.
"""

import time

import torch

from benchmarks.gpu.models import build, example
from benchmarks.gpu.settings import Settings, from_environment
from benchmarks.gpu.stamps import Stamps


class Function:
    """Reads its settings from the environment, so that any server can make it without arguments."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.settings = settings or from_environment()
        self.shape = self.settings.shape
        on_gpu = self.settings.device != "cpu"
        if not on_gpu:
            torch.set_num_threads(1)
        kind = torch.float16 if on_gpu else torch.float32
        self._model = build(self.shape).to(self.settings.device, kind)
        self._stamps = Stamps(self.settings.stamps) if self.settings.stamps else None
        for size in self.settings.warm_sizes:
            self.run([example(self.shape.length)] * size)

    def __call__(self, texts: list[str]) -> list[list[float]]:
        began = time.monotonic()
        outputs = self.run(texts)
        if self._stamps is not None:
            self._stamps.add(began, time.monotonic(), len(texts))
        return outputs

    def run(self, texts: list[str]) -> list[list[float]]:
        length = self.shape.length
        rows = b"".join([each.encode("ascii", "replace")[:length].ljust(length) for each in texts])
        tensor = torch.frombuffer(bytearray(rows), dtype=torch.uint8).view(len(texts), length)
        with torch.inference_mode():
            return self._model(tensor.to(self.settings.device)).tolist()
