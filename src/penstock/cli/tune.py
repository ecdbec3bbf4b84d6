"""`penstock tune`: how a model's batches are best formed for a load. It gathers what is known (`tuned.py`), calls
`advice/tuning.py`, and prints or applies what that advises (`apply.py`)."""

import json as json_format
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penstock.advice.goal import GPU_SECONDS, OBJECTIVES, Goal
from penstock.advice.played import P99
from penstock.advice.shown_advice import as_dict, changed, fragment, shown
from penstock.advice.side_by_side import Players
from penstock.advice.tuning import Advice
from penstock.advice.tuning import tune as advise
from penstock.cli.apply import apply as put_in_force
from penstock.cli.apply import refuse_what_cannot_be_applied
from penstock.cli.ask_admin import USUAL
from penstock.cli.options import seconds_of
from penstock.cli.tuned import Asked, Tuned, gather
from penstock.config import find_file
from penstock.config.toml import KeyPath, dotted
from penstock.errors import UserMistake

BAR = (
    TextColumn("{task.description}"),
    BarColumn(),
    MofNCompleteColumn(),
    TimeElapsedColumn(),
)


def tune(
    trace: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Recorded arrivals: of `penstock serve --record`, or any CSV."),
    ] = None,
    objective: Annotated[
        str, typer.Option(help="What shall be small: p99, p95 or mean latency, or gpu-seconds.")
    ] = P99,
    within: Annotated[
        str | None,
        typer.Option(
            show_default="p99 as it is now", help="With gpu-seconds: 99 % must be answered within this."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            show_default=False,
            help="A running server's admin plane: its settings, its curve, its rate.",
        ),
    ] = None,
    curve: Annotated[
        str | None,
        typer.Option(
            show_default="of --from, or of a sim: target",
            help="Time for a batch on one GPU: 1=12ms,8=14ms,32=100ms, or '100ms x 32'.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", show_default="./penstock.toml", help="The settings in force."),
    ] = None,
    model: Annotated[str | None, typer.Option(show_default="the only one", help="Which model.")] = None,
    rate: Annotated[
        float | None,
        typer.Option(show_default="the trace's, or the server's", help="Requests a second, on average."),
    ] = None,
    bursts: Annotated[
        float, typer.Option(min=1.0, help="Without a trace: rate of a burst divided by the mean.")
    ] = 1.0,
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, show_default="as in force", help="GPUs.")
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option(
            "--max-batch", "-b", min=1, show_default="of the curve", help="The largest that may be tried."
        ),
    ] = None,
    tiers: Annotated[
        str | None,
        typer.Option(
            show_default="the trace's", help="Shares of the traffic: enterprise=0.2,paid=0.3,free=0.5."
        ),
    ] = None,
    tier: Annotated[
        str | None, typer.Option(show_default="everybody's", help="Whose latency counts.")
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Write it into the file and SIGHUP the server; tries what that can change."
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", min=1, show_default="the cores", help="Simulations at once."),
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same arrivals.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """The best policy, batch size, wait, reserve and order of tiers for a load, found by simulation.

    The load is a trace (`penstock serve --record FILE` makes one) or a rate. Nothing is changed without --apply.

    Examples:

      penstock tune --from http://127.0.0.1:9000 --trace arrivals.csv

      penstock tune --curve '100ms x 32' --workers 6 --rate 1000 --objective p95

      penstock tune --from http://127.0.0.1:9000 --objective gpu-seconds --within 200ms --apply
    """
    if objective not in OBJECTIVES:
        raise UserMistake(f"--objective is {', '.join(OBJECTIVES)}, not {objective!r}")
    if within is not None and objective != GPU_SECONDS:
        raise UserMistake("--within bounds the latency while --objective gpu-seconds is made small: add that")
    server = from_ or (USUAL if apply else None)
    file = find_file(config, os.environ)
    tuned = gather(
        Asked(
            server, file, model, curve, trace, rate, bursts, workers, max_batch, tiers, tier, seed, live=apply
        )
    )
    if apply:
        refuse_what_cannot_be_applied(
            tuned.in_force, [tuned.key(name) for name in ("policy", "max_wait")], file
        )
    bound = tuned.objective if within is None else seconds_of(within, "--within")
    goal = Goal(objective, bound if objective == GPU_SECONDS else 0.0)
    advice = _advise(tuned, goal, jobs or len(os.sched_getaffinity(0)))
    section = dotted(("models", tuned.model))
    if json:
        typer.echo(json_format.dumps(as_dict(advice, section, tuned.assumed), indent=2))
    else:
        _print(advice, section, tuned)
    if apply and advice.changes:
        assert server is not None
        assert file is not None
        values = _values(advice, tuned)
        refuse_what_cannot_be_applied(tuned.in_force, list(values), file)
        for line in put_in_force(server, file, values):
            typer.echo(line, err=json)


def _advise(tuned: Tuned, goal: Goal, jobs: int) -> Advice:
    errors = Console(stderr=True)
    bar = Progress(*BAR, console=errors, transient=True) if errors.is_terminal else nullcontext()
    with bar as shown_bar:
        task = None if shown_bar is None else shown_bar.add_task("simulating", total=None)

        def progress(done: int, known: int) -> None:
            if shown_bar is not None and task is not None:
                shown_bar.update(task, completed=done, total=known)

        with Players(tuned.game, jobs, progress) as players:
            return advise(tuned.game, tuned.space, goal, players.play)


def _print(advice: Advice, section: str, tuned: Tuned) -> None:
    console = Console()
    if not console.is_terminal:
        console.width = 160  # lines stay whole where the output is no screen
    console.print(shown(advice, tuned.assumed))
    if text := fragment(advice, section):
        console.print(f"\n{text}", markup=False, highlight=False, soft_wrap=True)


def _values(advice: Advice, tuned: Tuned) -> dict[KeyPath, object]:
    """Returns what changes, as it stands in the file."""
    return {tuned.key(name): _plain(name, new) for name, (new, _) in changed(advice).items()}


def _plain(name: str, text: str) -> object:
    return int(text) if name in ("max_batch", "reserve") else text.strip('"')
