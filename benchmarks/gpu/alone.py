# mypy: disable-error-code="import-not-found"
"""The function in a loop, with nothing around it: `python -m benchmarks.gpu.alone SECONDS`. Prints JSON.

`parts` runs it first, while no server is up. That is the limit of every server: what the GPU does when the next
batch is always there.
"""

import json
import sys
import time
from statistics import fmean

import torch

from benchmarks.gpu.function import Function
from benchmarks.gpu.models import example
from benchmarks.gpu.settings import from_environment

LEAST_RUNS = 5  # batches of each size, however short the time
SECONDS_EACH = 0.25  # of each size, before the best is run for longer


def timed(function: Function, batch: list[str], seconds: float) -> list[float]:
    """The seconds of each of several runs of one batch."""
    took: list[float] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end or len(took) < LEAST_RUNS:
        began = time.monotonic()
        function.run(batch)
        took.append(time.monotonic() - began)
    return took


def measure(seconds: float) -> dict[str, object]:
    settings = from_environment()
    function = Function(settings)
    shape = settings.shape
    inputs = [f"{number:08x}{example(shape.length)}"[: shape.length] for number in range(shape.max_batch)]
    function.run(inputs[:1])  # sets up the GPU, which is no matter of sizes
    sizes = []
    for size in shape.sizes:
        first, *_ = timed(function, inputs[:size], 0.0)
        took = fmean(timed(function, inputs[:size], SECONDS_EACH))
        sizes.append(
            {"size": size, "first_ms": first * 1e3, "mean_ms": took * 1e3, "rate": size / took}
        )  # fmt: skip
    best = max(sizes, key=lambda each: each["rate"])
    took = fmean(timed(function, inputs[: int(best["size"])], seconds))
    return {
        "gpu": torch.cuda.get_device_name() if settings.device != "cpu" else "none",
        "torch": torch.__version__,
        "sizes": sizes,
        "best_size": best["size"],
        "best_rate": best["size"] / took,
        "new_size_ms": _new_sizes(function, inputs),
        "alternating": _alternating(function, inputs),
    }


def _new_sizes(function: Function, inputs: list[str]) -> list[float]:
    """How long the first batch takes of a few sizes that have not been run, between sizes that have."""
    new = [size + 1 for size in function.shape.sizes[1:-1]]
    return [timed_once(function, inputs[:size]) * 1e3 for size in new]


def _alternating(function: Function, inputs: list[str]) -> float:
    """How many times as long two sizes take in turns as each of them repeated."""
    one, other = inputs, inputs[: len(inputs) // 2]
    alone = fmean(timed(function, one, SECONDS_EACH)) + fmean(timed(function, other, SECONDS_EACH))
    turns = [timed_once(function, one) + timed_once(function, other) for _ in range(2 * LEAST_RUNS)]
    return fmean(turns) / alone


def timed_once(function: Function, batch: list[str]) -> float:
    began = time.monotonic()
    function.run(batch)
    return time.monotonic() - began


if __name__ == "__main__":
    print(json.dumps(measure(float(sys.argv[1]))))
