"""Who is measured: Penstock with each policy and with allowed sizes, its rivals, and how each is started. `field`
starts them."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchmarks.gpu.models import example
from benchmarks.gpu.settings import ALL, NONE, Settings
from benchmarks.serving import PENSTOCK
from penstock.core.policy import POLICIES

TARGET = "benchmarks.gpu.function:Function"
DEFAULT = "default"
MOSEC, LITSERVE = "mosec", "litserve"
CAPACITY = 8192  # requests that Mosec keeps; with its own 1,024 it refuses under the highest loads
# A fixed wait of 50 ms is several batches long on such a GPU; this is what an operator would set.
WINDOW = ("--max-wait", "5ms")


@dataclass(frozen=True, slots=True)
class Contender:
    name: str
    title: str
    flags: Sequence[str] = ()  # of `penstock serve`
    warm: str = ALL  # the sizes that the function itself runs before it is served
    workers: int = 1
    rival: bool = False
    path: str = "/v1/inference"

    def command(self, settings: Settings, port: int) -> list[str]:
        if self.name.startswith(MOSEC):
            module = "benchmarks.gpu.servers.mosec_model"
            return [sys.executable, "-m", module, "--port", str(port), "--capacity", str(CAPACITY)]
        if self.name.startswith(LITSERVE):
            return [sys.executable, "-m", "benchmarks.gpu.servers.litserve_model", str(port)]
        return [
            *PENSTOCK, "serve", TARGET,
            "--port", str(port), "--admin-port", "0", "--log-level", "warning",
            *model_flags(self, settings),
        ]  # fmt: skip


def model_flags(contender: Contender, settings: Settings) -> list[str]:
    """What is said of the model, to `penstock serve` and to a worker over Redis alike."""
    shape = settings.shape
    warmup = ["--warmup", example(min(shape.length, 128))] if "--batch-sizes" in contender.flags else []
    return ["--max-batch", str(shape.max_batch), *contender.flags, *warmup]


def _penstock(name: str, title: str, *flags: str, sizes: bool = False) -> Contender:
    """`sizes`: powers of two, which Penstock runs before it serves; otherwise the function runs every size."""
    if sizes:
        return Contender(name, f"{title}, powers", (*flags, "--batch-sizes", "powers"), warm=NONE)
    return Contender(name, title, flags)


def _known() -> dict[str, Contender]:
    every = [_penstock(DEFAULT, "default"), _penstock("powers", "default", sizes=True)]
    for policy in POLICIES:
        wait = WINDOW if policy == "window" else ()
        title = f"{policy}, 5 ms" if wait else policy
        every.append(_penstock(policy, title, "--policy", policy, *wait))
        every.append(_penstock(f"{policy}-powers", title, "--policy", policy, *wait, sizes=True))
    every.append(Contender(MOSEC, "Mosec, wait 5 ms", rival=True, path="/inference"))
    every.append(Contender(LITSERVE, "LitServe, wait 5 ms", rival=True, path="/predict"))
    return {each.name: each for each in every}


CONTENDERS = _known()
USUAL = (DEFAULT, "powers", "greedy", "window", "table", "ewma", MOSEC, LITSERVE)


def cold(contender: Contender) -> Contender:
    """The same with a function that has run nothing, as it is after a start without a warm-up of its own."""
    return replace(contender, warm=NONE)


def crowd(contender: Contender, workers: int) -> Contender:
    """The same with several workers on the one GPU."""
    flags = contender.flags if contender.rival else (*contender.flags, "--workers", str(workers))
    return replace(
        contender,
        name=f"{contender.name}-{workers}",
        title=f"{contender.title}, {workers} workers",
        flags=flags,
        workers=workers,
    )
