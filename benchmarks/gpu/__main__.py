"""The command `python -m benchmarks.gpu`: reads its options, has `parts` measure one model after the other, and
prints the tables of `report`."""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.figure import Figure, Say, above_zero, at_least_one, chosen, conduct, options
from benchmarks.gpu import parts, report
from benchmarks.gpu.contenders import CONTENDERS, USUAL
from benchmarks.gpu.models import SHAPES
from benchmarks.gpu.settings import Settings
from penstock.errors import UserMistake

NAME = "gpu"
LOADS = "6,25,50,70,90"
CLIENT_CORES = 6  # for the generators, where there are enough cores to have some of their own
ENOUGH_CORES = 12  # with fewer, servers and load share cores

_LOOK = "import torch; print(torch.cuda.get_device_name() if torch.cuda.is_available() else '')"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = options(NAME, __doc__, seconds=5.0)
    parser.add_argument("--only", default="", metavar="PARTS", help=f"some of: {', '.join(parts.PARTS)}")
    parser.add_argument(
        "--models", default="bert,large", metavar="NAMES", help=f"some of: {', '.join(SHAPES)}"
    )
    parser.add_argument(
        "--policies", default=",".join(USUAL), metavar="NAMES", help=f"some of: {', '.join(CONTENDERS)}"
    )
    parser.add_argument(
        "--loads", type=percents, default=percents(LOADS), help=f"in percent; {LOADS} by default"
    )
    parser.add_argument(
        "--cold-loads", type=percents, default=[50.0], help="the same, of the part cold; 50 by default"
    )
    parser.add_argument(
        "--cold-seconds", type=above_zero, default=20.0, help="of a cold start; 20 by default"
    )
    parser.add_argument("--max-batch", type=at_least_one, default=None, help="instead of each model's own")
    parser.add_argument(
        "--workers", type=at_least_one, default=2, help="on the one GPU, in the part two; 2 by default"
    )
    parser.add_argument("--generators", type=at_least_one, default=None, help="processes that offer the load")
    parser.add_argument(
        "--minutes", type=above_zero, default=60.0, help="after which no further measurement is begun"
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument(
        "--tiny", action="store_true", help="models with next to nothing to compute, to try it all"
    )
    return parser.parse_args(argv)


def percents(text: str) -> list[float]:
    return [above_zero(each) for each in text.split(",")]


def measure(given: argparse.Namespace, say: Say) -> Figure:
    began = time.monotonic()
    shapes = chosen(given.models, SHAPES, "model")
    contenders = chosen(given.policies, CONTENDERS, "policy")
    wanted = chosen(given.only, {part: part for part in parts.PARTS}, "part")
    gpu = look(given.device)
    say(f"GPU: {gpu}")
    servers, clients = dealt(sorted(os.sched_getaffinity(0)))
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="gpu-stamps-") as folder:
        plan = parts.Plan(
            wanted,
            contenders,
            given.loads,
            given.cold_loads,
            given.seconds,
            given.cold_seconds,
            given.generators or (len(clients) if clients else 2),
            given.workers,
            began + given.minutes * 60,
            Path(folder),
            given.out / f"{NAME}.jsonl",
            say,
            servers,
            clients,
        )
        plan.journal.write_text("")
        findings = []
        for shape in shapes:
            settings = Settings(shape.name, given.device, given.tiny, max_batch=given.max_batch or 0)
            findings.append(parts.play(plan, settings))
    return Figure(
        title="A real GPU",
        method=method(gpu, given, plan),
        tables=[table for found in findings for table in report.tables(found)],
        checks=[check for found in findings for check in report.promises(found)],
        notes=[note for found in findings for note in found.notes],
        data={
            "gpu": gpu,
            "models": {
                found.settings.model: {
                    "alone": found.alone,
                    "results": [result.as_data for result in found.results],
                    "notes": found.notes,
                }
                for found in findings
            },
        },
    )


def method(gpu: str, given: argparse.Namespace, plan: parts.Plan) -> str:
    kind = "float16" if given.device == "cuda" else "float32"
    return (
        f"{gpu}. Everybody serves the same function: random weights, {kind}, copies to and from the GPU included. "
        f"All servers are up at once, warmed, and measured in turns, {given.seconds:g} s each after a second of "
        "warm-up. Closed loop: connections for three full batches, each asks again as soon as it is answered. "
        "Open loop: Poisson, percent of what the function does alone at its best size, milliseconds from the "
        f"scheduled time. The load comes from {plan.generators} processes"
        f"{' on cores of their own' if plan.clients else ''}. `batch`, `in it`, `gap` (between two batches) and "
        "`busy` (the share of time in which the function ran) are by the clock of the function's own process. "
        "`late` is the generators' lateness, which the latencies include."
    )


def look(device: str) -> str:
    """The name of the GPU; raises UserMistake if there is none, or no torch to use it with."""
    found = subprocess.run([sys.executable, "-c", _LOOK], capture_output=True, text=True, check=False)
    if found.returncode:
        raise UserMistake(
            "this measurement needs torch in the Python that runs it: pip install torch transformers"
        )
    if device == "cpu":
        return "no GPU: the CPU"
    name = found.stdout.strip()
    if not name:
        raise UserMistake(
            "torch finds no GPU on this machine; to try this benchmark without one, say --device cpu --tiny"
        )
    return name


def dealt(cores: Sequence[int]) -> tuple[set[int] | None, set[int] | None]:
    """The servers' cores and the generators'; on a small machine all share all."""
    if len(cores) < ENOUGH_CORES:
        return None, None
    return set(cores[:-CLIENT_CORES]), set(cores[-CLIENT_CORES:])


def main(argv: Sequence[str]) -> int:
    return conduct(NAME, arguments(argv), measure, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
