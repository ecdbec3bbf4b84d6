"""`penstock plan`: how many GPUs and processes a load needs. `advice/plan.py` works it out. With `--from` a running
server is asked for the times of its batches."""

import json as json_format
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from msgspec import convert
from rich.console import Console

from penstock.advice.arithmetic import Need
from penstock.advice.curve import Curve, Health, learned_curve, parse_curve
from penstock.advice.plan import make_plan
from penstock.advice.shown import shown
from penstock.cli.ask_admin import ask
from penstock.cli.options import seconds_of
from penstock.cli.progress import Line
from penstock.errors import UserMistake
from penstock.load.arrivals import burstiness
from penstock.load.recorded import read
from penstock.load.traffic import Traffic, make_schedule
from penstock.units import SIZE_HINT, parse_size

WARM_UP = 2.0  # seconds that are simulated and not counted
FEWEST, MOST = 20_000, 300_000  # requests in one simulation, so that its p99 says something and it ends soon
SHORTEST, SHORTEST_BURSTY = 30.0, 60.0  # seconds
ALL = 1e9  # seconds: a trace is played to its end
BATCHES = 50  # the fewest batches that one GPU runs in a simulation


def plan(
    curve: Annotated[
        str | None,
        typer.Option(
            show_default=False, help="Time for a batch on one GPU: 1=12ms,8=14ms,32=100ms, or '100ms x 32'."
        ),
    ] = None,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from", show_default=False, help="A running server's admin plane, which has measured it."
        ),
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(show_default="the trace's, or the server's", help="Requests a second, on average."),
    ] = None,
    objective: Annotated[
        str | None, typer.Option(show_default=False, help="Answered within: 200ms. Needed.")
    ] = None,
    quantile: Annotated[float, typer.Option(help="For this part of all requests.")] = 0.99,
    bursts: Annotated[
        float | None,
        typer.Option(
            min=1.0, show_default="1, or the trace's", help="Rate of a burst divided by the mean: 3."
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(show_default=False, help="Recorded arrivals, as `penstock sim` and `bench` read them."),
    ] = None,
    max_batch: Annotated[
        int | None,
        typer.Option(
            "--max-batch", "-b", min=1, show_default="of --curve", help="Requests in one batch at most."
        ),
    ] = None,
    spare: Annotated[int, typer.Option(min=0, help="GPUs that may fail without harm.")] = 0,
    gpu_price: Annotated[
        float | None,
        typer.Option(min=0.0, show_default=False, help="Of one GPU for an hour: gives the cost."),
    ] = None,
    input_size: Annotated[str, typer.Option(help="Of one request.")] = "2KiB",
    output_size: Annotated[str, typer.Option(help="Of one answer.")] = "2KiB",
    async_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Part of the requests whose results are kept for later.")
    ] = 0.0,
    result_ttl: Annotated[str, typer.Option(help="How long these are kept.")] = "10min",
    model: Annotated[str | None, typer.Option(show_default=False, help="Which one of the server's.")] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same arrivals.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead.")] = False,
) -> None:
    """How many GPUs, gateways and batchers a load needs, how much memory and network, and what it costs.

    Times of batches come from you (--curve) or from a server that has run some (--from). The number of GPUs is
    found by simulation: with so many the objective is kept, and with one fewer it is not.

    Examples:

      penstock plan --curve '100ms x 32' --rate 1000 --objective 200ms --gpu-price 2.50

      penstock plan --curve '200ms x 64' --rate 10000 --objective 250ms

      penstock plan --from http://127.0.0.1:9000 --rate 4000 --objective 150ms --bursts 3 --spare 1
    """
    if objective is None:
        raise UserMistake(
            "--objective is missing: within which time must requests be answered? --objective 200ms"
        )
    if not 0.0 < quantile < 1.0:
        raise UserMistake(
            f"--quantile is a part of all requests between 0 and 1, such as 0.99, not {quantile:g}"
        )
    if trace is not None and bursts is not None:
        raise UserMistake("--trace has its own bursts: leave out --bursts")
    given, current = _curve(curve, from_, model, max_batch)
    if rate is None and trace is not None:
        rate = read(trace).rate
    rate = current if rate is None else rate
    if not rate:
        raise UserMistake("--rate is missing: how many requests a second arrive? --rate 1000")
    bursty = bursts is not None and bursts > 1.0
    traffic = Traffic(
        rate,
        _duration(given, rate, bursty=bursty) if trace is None else ALL,
        WARM_UP,
        "bursty" if bursty else "poisson",
        trace,
        seed,
        bursts or 1.0,
    )
    schedule = make_schedule(traffic)
    need = Need(
        rate,
        seconds_of(objective, "--objective"),
        quantile,
        burstiness(schedule.times) if trace is not None else bursts or 1.0,
        _bytes(input_size, "--input-size"),
        _bytes(output_size, "--output-size"),
        async_share,
        seconds_of(result_ttl, "--result-ttl"),
    )
    errors = Console(stderr=True)
    with Line(errors) if errors.is_terminal else nullcontext() as line:
        made = make_plan(
            given, need, schedule, WARM_UP, spare=spare, price=gpu_price,
            progress=None if line is None else lambda gpus: line.show(f"simulating {gpus:,} GPUs"),
        )  # fmt: skip
    if json:
        typer.echo(json_format.dumps(made.as_dict(), indent=2))
    else:
        console = Console()
        if not console.is_terminal:
            console.width = 160  # lines stay whole where the output is no screen
        console.print(shown(made))


def _curve(
    text: str | None, server: str | None, model: str | None, max_batch: int | None
) -> tuple[Curve, float]:
    """Returns the curve, and the requests a second that the server has now; 0 if no server was named."""
    if (text is None) == (server is None):
        raise UserMistake(
            "say how long a batch takes on one GPU: --curve '100ms x 32', or --from URL of a server that knows"
        )
    if text is not None:
        return parse_curve(text, max_batch), 0.0
    assert server is not None
    models = convert(ask(server, "/internal/health", option="--from"), Health).models
    found = learned_curve(models, model, server)
    if max_batch is not None:
        found = Curve(found.service, max_batch, found.source)
    rates = [stands.requests_per_second for name, stands in models.items() if model in (None, name)]
    return found, sum(rates)


def _duration(curve: Curve, rate: float, *, bursty: bool) -> float:
    """Returns how many seconds to simulate: enough requests for a p99, and no more than end soon."""
    wanted = max(SHORTEST_BURSTY if bursty else SHORTEST, FEWEST / rate)
    return min(wanted, max(MOST / rate, BATCHES * curve.seconds(curve.max_batch)))


def _bytes(text: str, option: str) -> int:
    try:
        return parse_size(text)
    except ValueError:
        raise UserMistake(f"{option} takes {SIZE_HINT}, not {text!r}") from None
