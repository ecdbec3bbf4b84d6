"""What `penstock tune` is asked to make small, and how two settings are compared by it. `cli/tune.py` makes a
`Goal` of its options. `search.py` and `tuning.py` compare by it, and `shown_advice.py` shows it. Pure."""

from dataclasses import dataclass

from penstock.advice.played import MEAN, P95, P99, Played
from penstock.types import Seconds

GPU_SECONDS = "gpu-seconds"
OBJECTIVES = (P99, P95, MEAN, GPU_SECONDS)


@dataclass(frozen=True, slots=True)
class Goal:
    """What is wanted: as low a latency as possible. Or, where the objective is `gpu-seconds`: as little time of the
    GPUs as possible, while 99 % are answered within `within`."""

    objective: str
    within: Seconds = 0.0

    @property
    def saves_gpus(self) -> bool:
        return self.objective == GPU_SECONDS

    @property
    def shown(self) -> str:
        """The name of the latency that is shown: it is what counts, or what is bounded."""
        return P99 if self.saves_gpus else self.objective

    def latency(self, played: Played) -> Seconds:
        return played.latency.at(self.shown)

    def value(self, played: Played) -> float:
        """What is to be made small."""
        return played.gpu_seconds if self.saves_gpus else self.latency(played)

    def keeps(self, played: Played) -> bool:
        """Whether the bound is kept, if there is one."""
        return not self.saves_gpus or self.latency(played) <= self.within

    def order(self, played: Played) -> tuple[float, ...]:
        """Returns what settings are sorted by, the best first. Those that break the bound come last, the slowest at
        the end."""
        if not self.keeps(played):
            return 1.0, self.latency(played), played.gpu_seconds
        other = self.latency(played) if self.saves_gpus else played.gpu_seconds
        return 0.0, self.value(played), -played.answered, other
