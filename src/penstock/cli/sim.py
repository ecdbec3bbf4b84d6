"""`penstock sim`: plays the server's own decisions in virtual time and prints the results. `sim/` plays; no server
takes part. `sim_autoscale.py`, `sim_zones.py` and `sim_cells.py` have the parts for those options."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penstock.bench.options import parse_clients
from penstock.cli.json_file import write_json
from penstock.cli.options import seconds_of
from penstock.cli.progress import Line
from penstock.cli.sim_autoscale import chosen_rules, compared, scaling_options, shown
from penstock.cli.sim_cells import show_cells
from penstock.cli.sim_zones import compare_zones
from penstock.config import load
from penstock.config.sections import POLICY_NAMES
from penstock.errors import UserMistake
from penstock.from_config.tiers import tier_names
from penstock.load.traffic import Traffic, make_schedule
from penstock.roles.simulation import scenario_of
from penstock.sim.autoscaling import Staffed
from penstock.sim.floor import floor
from penstock.sim.study import Finding, render, study

STEADY = ("poisson", "uniform")  # arrivals that have a floor


def sim(
    service: Annotated[
        str | None,
        typer.Option(
            show_default=False,
            help="Time for a batch: 100ms, or a=50ms,b=0.5ms,knee=64,length=1us,pad=powers,new_shape=80ms,"
            "jitter=5%,fail=1%.",
        ),
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", "-w", show_default="1", help="GPUs.")] = None,
    max_batch: Annotated[
        int | None,
        typer.Option("--max-batch", "-b", show_default="64", help="Requests in one batch at most."),
    ] = None,
    batch_sizes: Annotated[
        str | None,
        typer.Option(show_default="any", help="any, powers, or sizes such as 1,2,4,8: others are padded."),
    ] = None,
    max_wait: Annotated[
        str | None, typer.Option(show_default="50ms", help="Longest wait for company while a worker is free.")
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(show_default="paced", help=f"{', '.join(POLICY_NAMES)}; several are compared."),
    ] = None,
    rate: Annotated[float, typer.Option(help="Requests a second, on average.")] = 1000.0,
    duration: Annotated[str, typer.Option(help="How long to measure, in virtual time: 60s, 10m.")] = "60s",
    warmup: Annotated[str, typer.Option(help="Simulated before that, and left out.")] = "2s",
    arrivals: Annotated[
        str, typer.Option(help="poisson, uniform, bursty, day (a swing in 24 h) or trace.")
    ] = "poisson",
    trace: Annotated[
        Path | None,
        typer.Option(show_default=False, help="CSV with TIMESTAMP and ContextTokens, replayed at --rate."),
    ] = None,
    timeout_ms: Annotated[
        int | None, typer.Option(min=1, show_default=False, help="The deadline of every request.")
    ] = None,
    tiers: Annotated[
        str | None,
        typer.Option(show_default=False, help="Shares of the traffic: enterprise=0.2,paid=0.3,free=0.5."),
    ] = None,
    tiers_order: Annotated[
        str | None, typer.Option(show_default="weighted", help="weighted or strict.")
    ] = None,
    tenants: Annotated[int, typer.Option(min=1, help="Askers who share the traffic evenly.")] = 1,
    reserve: Annotated[
        int | None, typer.Option(show_default="0", help="Workers kept for full batches.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(show_default=False, help="Cost of one batch at most; in a trace, tokens are the cost."),
    ] = None,
    batch_cost: Annotated[
        str | None,
        typer.Option(show_default="sum", help="sum, or padded: a batch costs rows x its dearest request."),
    ] = None,
    group_lengths: Annotated[
        bool | None,
        typer.Option(
            "--group-lengths", show_default=False, help="Like lengths go together; of a trace, its tokens."
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(show_default="4s", help="Answered by then, or late. The other limits follow."),
    ] = None,
    processing_timeout: Annotated[
        str | None, typer.Option(show_default="3/4 of --timeout", help="Longest time a batch may run.")
    ] = None,
    admission: Annotated[
        bool, typer.Option("--admission/--no-admission", help="Refuse on arrival what would be too late.")
    ] = True,
    warmed: Annotated[
        bool, typer.Option("--warmed", help="Each GPU has run every size before, as in a server's warm-up.")
    ] = False,
    autoscale: Annotated[
        str | None,
        typer.Option(show_default=False, help="Workers come and go within 1..8; beside a fixed number."),
    ] = None,
    rules: Annotated[
        str | None,
        typer.Option(
            show_default="both", help="With --autoscale: predicted or classic; several are compared."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            show_default="30s", help="With --autoscale: until a worker that was asked for is ready."
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(show_default="--timeout", help="With --autoscale: a later answer is a miss."),
    ] = None,
    zones: Annotated[
        str | None,
        typer.Option(show_default="one", help="Zones: 3, or with shares of the traffic: a=0.6,b=0.4."),
    ] = None,
    round_trip: Annotated[str, typer.Option(help="With --zones: from one zone to another and back.")] = "2ms",
    spill: Annotated[
        str, typer.Option(help="With --zones: deadline, pool or never; several are compared.")
    ] = "deadline,pool,never",
    lose: Annotated[
        str | None, typer.Option(show_default=False, help="With --zones: one is lost then, as in a@30s.")
    ] = None,
    cells: Annotated[
        bool, typer.Option("--cells", help="What limits over one Redis at each decade up to --rate.")
    ] = False,
    seed: Annotated[int, typer.Option(help="The same seed gives the same run.")] = 0,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", show_default=False, help="A server's settings; options here win."),
    ] = None,
    model: Annotated[str | None, typer.Option(show_default=False, help="Which one of the config's.")] = None,
    json: Annotated[
        str | None, typer.Option(show_default=False, help="Write the figures to this file; - is stdout.")
    ] = None,
) -> None:
    """Simulate a server: its own policies on a schedule of arrivals, with nothing but the GPU taking time.

    Examples:

      penstock sim --service 100ms --workers 6 --max-batch 32 --rate 1000 --policy paced,window,greedy

      penstock sim --service a=50ms,b=0.5ms,jitter=5% --workers 6 --timeout-ms 200 --rate 4000 --json -

      penstock sim --service 400ms --max-batch 4 --rate 20 --arrivals day --duration 24h --autoscale 1..8

    JSON of one policy is an object with the fields of `penstock bench`; of several, one such object for each.
    """
    if service is None and config is None:
        raise UserMistake("say how long a batch takes on your GPU: --service 100ms, or a=50ms,b=0.5ms")
    traffic = Traffic(
        rate,
        seconds_of(duration, "--duration"),
        seconds_of(warmup, "--warmup"),
        arrivals,
        trace,
        seed,
    )
    scaling = scaling_options(autoscale, rules, start, objective)
    shares = None if tiers is None else dict(parse_clients(tiers))
    if json is not None and not Path(json).absolute().parent.is_dir():  # found now, and not after the run
        raise UserMistake(f"cannot write {json}: there is no folder {Path(json).absolute().parent}")
    scenarios, names = {}, []
    for chosen in [None] if policy is None else [part.strip() for part in policy.split(",")]:
        settings = load(
            config,
            os.environ if config is not None else {},
            {
                "model.name": model,
                "model.target": None if service is None else f"sim:{service.removeprefix('sim:')}",
                "model.workers": workers,
                "model.max_batch": max_batch,
                "model.batch_sizes": batch_sizes,
                "model.max_wait": max_wait,
                "model.policy": chosen,
                "model.reserve": reserve,
                "model.max_cost": max_cost,
                "model.batch_cost": batch_cost,
                "model.group_lengths": group_lengths,
                "model.timeout": timeout,
                "model.processing_timeout": processing_timeout,
                "tiers.order": tiers_order,
                **scaling,
            },
        )
        name = _only(list(settings.models), model)
        names = tier_names(settings)
        scenarios[settings.models[name].policy] = scenario_of(
            settings, name, shares=shares, timeout=None if timeout_ms is None else timeout_ms / 1000,
            tenants=tenants, admission=admission, warmed=warmed, seed=seed,
        )  # fmt: skip
    if scaling and len(scenarios) > 1:
        raise UserMistake("--autoscale compares numbers of workers: choose one --policy")
    if cells:
        show_cells(next(iter(scenarios.values())), rate, json)
        return
    schedule = make_schedule(traffic)
    if zones is not None:
        if len(scenarios) > 1:
            raise UserMistake("with --zones, choose one --policy")
        [scenario] = scenarios.values()
        compare_zones(
            scenario, schedule, traffic.warmup,
            zones=zones, round_trip=round_trip, spill=spill, lose=lose, json=json,
        )  # fmt: skip
        return
    errors = Console(stderr=True)
    findings: dict[str, Finding] = {}
    with _Progress(errors, len(schedule.times)) if errors.is_terminal else nullcontext() as progress:
        if scaling:
            [scenario] = scenarios.values()
            staffed = compared(
                settings, name, scenario, schedule, traffic.warmup, chosen_rules(rules), progress
            )
            _write(staffed, json)
            (errors if json == "-" else Console()).print(shown(staffed, schedule))
            return
        for chosen, scenario in scenarios.items():
            best = None
            if trace is None and arrivals in STEADY:
                best = floor(scenario.service, scenario.workers, scenario.rules.max_batch, rate)
            watch = None if progress is None else progress.of(chosen)
            findings[chosen] = study(scenario, schedule, traffic.warmup, names, best, watch)
    _write(findings, json)
    (errors if json == "-" else Console()).print(render(findings))


def _only(models: list[str], chosen: str | None) -> str:
    if chosen is not None:
        return chosen
    if len(models) != 1:
        raise UserMistake(f"choose one of the models with --model: {', '.join(models)}")
    return models[0]


def _write(findings: Mapping[str, Finding | Staffed], file: str | None) -> None:
    fields = {policy: finding.as_dict() for policy, finding in findings.items()}
    write_json(fields if len(fields) > 1 else next(iter(fields.values())), file)


class _Progress(Line):
    """The line that shows a long run while it runs."""

    def __init__(self, console: Console, arrivals: int) -> None:
        super().__init__(console)
        self._arrivals = arrivals

    def of(self, policy: str) -> Callable[[int], None]:
        began = time.perf_counter()

        def line(played: int) -> None:
            speed = played / max(time.perf_counter() - began, 1e-9)
            self.show(f"{policy}  {played:,} of {self._arrivals:,} requests  {speed:,.0f}/s")

        return line
