"""The sizes that a model's batches may have, as a value of the configuration: a word, or a list. It is the type of
the key `batch_sizes` in a model's section (`sections.py`), which `load` reads and `penstock check` shows. What a
worker announces is checked by it too (`cluster/announcements.py`)."""

from dataclasses import dataclass

from penstock.config.kinds import Whole
from penstock.config.toml import toml

ANY, POWERS = "any", "powers"
LARGEST_BATCH = 65536
_SIZE = Whole(1, LARGEST_BATCH)


@dataclass(frozen=True, slots=True)
class BatchSizes:
    """Implements `kinds.Kind` for a word or a list of sizes, which are kept in ascending order and each once."""

    wanted: str = f'"any", "powers" or a list of sizes from 1 to {LARGEST_BATCH}, such as [1, 2, 4, 8]'

    def take(self, value: object) -> str | tuple[int, ...]:
        if isinstance(value, str) and value in (ANY, POWERS):
            return value
        if not isinstance(value, list | tuple) or not value:
            raise ValueError(value)
        return tuple(sorted({_SIZE.take(size) for size in value}))

    def read(self, text: str) -> str | tuple[int, ...]:
        """Reads `any`, `powers`, `1,2,4,8` or `[1, 2, 4, 8]`."""
        word = text.strip()
        if word in (ANY, POWERS):
            return word
        return self.take([int(size) for size in word.removeprefix("[").removesuffix("]").split(",")])

    def write(self, value: str | tuple[int, ...]) -> str:
        return toml(value if isinstance(value, str) else list(value))
