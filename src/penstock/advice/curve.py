"""Reads how long a batch takes from what people write after `--curve`, and from what a server that has measured it
says on `/internal/health`. `penstock plan` and `penstock tune` fetch that and call this (`cli/plan.py`,
`cli/tuned.py`); nothing is fetched here.

    100ms x 32              100 ms, whatever the batch, of up to 32 requests
    1=12ms,32=100ms         measured: a batch of one, and of 32, which is also the largest
    a=50ms,b=0.5ms x 64     as `penstock sim --service` takes it, and the largest batch
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import Struct

from penstock.errors import UserMistake
from penstock.service_model import ServiceModel, parse_service
from penstock.types import Seconds

_WITH_LARGEST = re.compile(r"(.*?)\s*[x×]\s*([0-9]+)\s*")
SHORTEST: Seconds = 1e-6  # a batch takes so long at least
WELL_KNOWN = 0.8  # a server that has run a batch of this part of the largest knows what the largest takes


class Learned(Struct):
    """What a server says of one model."""

    service_curve: list[tuple[float, float]] = []  # sizes of batches and their seconds
    max_batch: int = 0
    requests_per_second: float = 0.0
    workers: int = 0


class Health(Struct):
    """What is read of a server's `/internal/health`."""

    models: dict[str, Learned] = {}


@dataclass(frozen=True, slots=True)
class Curve:
    """How long one GPU takes for a batch, and the largest batch that it is given."""

    service: ServiceModel
    max_batch: int
    source: str  # where the curve is from, in words

    def seconds(self, size: int) -> Seconds:
        return self.service.seconds(size)


def parse_curve(text: str, max_batch: int | None = None) -> Curve:
    """Reads `--curve`. `max_batch`: what `--max-batch` says, which wins."""
    service_text, largest = text, max_batch
    if found := _WITH_LARGEST.fullmatch(text):
        service_text, largest = found[1], max_batch or int(found[2])
    try:
        service = parse_service(service_text.replace(" ", ""))
    except UserMistake as mistake:
        raise UserMistake(f"--curve: {mistake.message}") from None
    if largest is None and service.points:
        largest = service.points[-1][0]
    if not largest or not 0 < largest <= 65_536:
        raise UserMistake(
            f'--curve {text!r} does not say the largest batch: write "{text.strip()} x 32", or add --max-batch 32'
        )
    if service.seconds(largest) <= 0:
        raise UserMistake(f"--curve {text!r}: a batch must take longer than nothing")
    return Curve(service, largest, "as given")


def learned_curve(models: Mapping[str, Learned], model: str | None, where: str) -> Curve:
    """Makes a curve of what a server has learned. Batches larger than any that it has run are not planned with,
    since how long they take is not known."""
    served = sorted(name for name, found in models.items() if found.service_curve)
    if model is None and len(served) > 1:
        raise UserMistake(f"choose one of the server's models with --model: {', '.join(served)}")
    if not served or (model is not None and model not in served):
        raise UserMistake(
            f"{where} has not run a batch{f' of {model}' if model else ''} yet: send it some load first"
            " (penstock bench), or give the times with --curve"
        )
    found = models[model or served[0]]
    points: dict[int, Seconds] = {}
    for size, seconds in found.service_curve:
        points[max(1, round(size))] = max(seconds, SHORTEST)
    largest = max(points)
    known = largest >= WELL_KNOWN * found.max_batch
    return Curve(
        ServiceModel(points=tuple(sorted(points.items()))),
        found.max_batch if known else largest,
        f"learned by {where}"
        + ("" if known else f"; it has run no batch above {largest} yet, so none is planned with"),
    )
