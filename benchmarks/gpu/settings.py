"""What the process of a function is told by its environment (model, sizes, where stamps go): Penstock, Mosec and
LitServe all pass that on. `field` sets it, and `function` reads it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace

from benchmarks.gpu.models import SHAPES, Shape

PREFIX = "GPU_BENCH_"
ALL, POWERS, NONE = "all", "powers", "none"  # which sizes a function runs before it is served


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "bert"
    device: str = "cuda"
    tiny: bool = False
    warm: str = NONE
    stamps: str = ""  # a folder for the stamps of batches; empty: none are kept
    workers: int = 1
    max_batch: int = 0  # 0: the model's own

    @property
    def shape(self) -> Shape:
        shape = SHAPES[self.model].tiny() if self.tiny else SHAPES[self.model]
        return replace(shape, max_batch=self.max_batch) if self.max_batch else shape

    @property
    def warm_sizes(self) -> list[int]:
        shape = self.shape
        return {ALL: list(range(1, shape.max_batch + 1)), POWERS: shape.sizes, NONE: []}[self.warm]

    def environment(self) -> dict[str, str]:
        return {
            f"{PREFIX}MODEL": self.model,
            f"{PREFIX}DEVICE": self.device,
            f"{PREFIX}TINY": "1" if self.tiny else "",
            f"{PREFIX}WARM": self.warm,
            f"{PREFIX}STAMPS": self.stamps,
            f"{PREFIX}WORKERS": str(self.workers),
            f"{PREFIX}MAX_BATCH": str(self.max_batch),
        }


def from_environment(variables: Mapping[str, str] = os.environ) -> Settings:
    def of(name: str, otherwise: str) -> str:
        return variables.get(f"{PREFIX}{name}", otherwise)

    return Settings(
        of("MODEL", "bert"),
        of("DEVICE", "cuda"),
        bool(of("TINY", "")),
        of("WARM", NONE),
        of("STAMPS", ""),
        int(of("WORKERS", "1")),
        int(of("MAX_BATCH", "0")),
    )
