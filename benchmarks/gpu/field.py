"""Starts all contenders at once: each starts while the others do, and waits idle for its turn to be measured by
`parts`.

Loading a model and warming up its sizes takes longer than most measurements, and a GPU is rented by the minute.
"""

import contextlib
import json
import os
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.figure import Say
from benchmarks.gpu.contenders import Contender
from benchmarks.gpu.models import example
from benchmarks.gpu.settings import Settings
from benchmarks.serving import DIRECT, DidNotServe, Launched, free_port, launched

ROOT = Path(__file__).parent.parent.parent
READY_SECONDS = 150.0
ANSWER_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Running:
    """A contender that answers."""

    contender: Contender
    urls: Sequence[str]  # to post inputs to
    admins: Sequence[str]  # planes that know its batches; none where it is a rival
    stamps: Path


@contextlib.contextmanager
def field(
    contenders: Sequence[Contender], settings: Settings, folder: Path, say: Say
) -> Iterator[list[Running]]:
    """The contenders that could be started. `folder` gets the stamps of their functions."""
    with contextlib.ExitStack() as held:
        began = time.monotonic()
        started: list[tuple[Contender, Launched, int, Path]] = []
        for contender in contenders:
            stamps = stamps_of(folder, contender)
            port = free_port()
            command = contender.command(settings, port)
            if contender.rival:  # what it prints would fill a pipe that nobody reads
                command = ["sh", "-c", 'exec "$@" >&2', "sh", *command]
            process = held.enter_context(launched(command, variables(contender, settings, stamps)))
            started.append((contender, process, port, stamps))
        # All are told to end before any of them is waited for.
        held.callback(_terminate, [process for _, process, _, _ in started])
        running = []
        for contender, process, port, stamps in started:
            try:
                running.append(_ready(contender, process, port, stamps, settings, began + READY_SECONDS))
            except (DidNotServe, OSError) as failure:
                say(f"  not run: {contender.title}: {failure}")
        say(f"  {len(running)} of {len(started)} servers up after {time.monotonic() - began:.0f} s")
        yield running


def _terminate(processes: Sequence[Launched]) -> None:
    for process in processes:
        process.terminate()


def stamps_of(folder: Path, contender: Contender) -> Path:
    stamps = folder / contender.name
    stamps.mkdir(parents=True, exist_ok=True)
    return stamps


def variables(contender: Contender, settings: Settings, stamps: Path) -> Mapping[str, str]:
    """What the processes of a contender are told."""
    own = replace(settings, warm=contender.warm, workers=contender.workers, stamps=str(stamps))
    path = os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))
    return {**own.environment(), "PYTHONPATH": path, "TOKENIZERS_PARALLELISM": "false"}


def _ready(
    contender: Contender, process: Launched, port: int, stamps: Path, settings: Settings, give_up: float
) -> Running:
    """Waits until it has answered once."""
    url, admins = f"http://127.0.0.1:{port}{contender.path}", []
    if not contender.rival:
        admins.append(process.server(within=max(1.0, give_up - time.monotonic())).admin)
    refusal = ""
    while time.monotonic() < give_up:
        process.still_there()
        try:
            check(url, settings)
            return Running(contender, [url], admins, stamps)
        except OSError as error:
            refusal = str(error)
        time.sleep(0.1)
    raise DidNotServe(f"no answer in {READY_SECONDS:g} s: {refusal}")


def check(url: str, settings: Settings) -> None:
    """Asks once. Raises OSError if there is no good answer yet, and DidNotServe if it is no answer of the model."""
    question = urllib.request.Request(url, body(settings), {"Content-Type": "application/json"})
    with DIRECT.open(question, timeout=ANSWER_SECONDS) as answer:
        said = answer.read()
    try:
        output = json.loads(said)["output"]
    except (ValueError, LookupError, TypeError):
        output = None
    if not isinstance(output, list) or not all(isinstance(each, float) for each in output):
        raise DidNotServe(f"an answer of an unknown shape: {said[:80]!r}")


def body(settings: Settings) -> bytes:
    return json.dumps({"input": example(settings.shape.length)}).encode()
