"""Gathers what `penstock tune` simulates: the settings in force, how long a batch takes, and the load. They come
from a running server, from the configuration file and from options; `tune.py` hands the options over as `Asked`."""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from msgspec import convert

from penstock.advice.curve import Curve, Health, Learned, learned_curve, parse_curve
from penstock.advice.played import Game
from penstock.advice.setting import setting_of
from penstock.advice.space import Space, space_of
from penstock.bench.options import parse_clients
from penstock.cli.apply import InForce
from penstock.cli.ask_admin import ask
from penstock.config import Config, Setting, load
from penstock.config.batch_sizes import ANY, POWERS
from penstock.config.told import told_config
from penstock.config.toml import KeyPath
from penstock.errors import UserMistake
from penstock.from_config.tiers import tier_names
from penstock.load.arrivals import replayed
from penstock.load.recorded import Recorded, read
from penstock.load.traffic import Schedule, Traffic, make_schedule
from penstock.roles.simulation import scenario_of
from penstock.service_model import parse_service
from penstock.sim.study import costs_of

WARM_UP = 2.0  # seconds that are simulated and not counted
WARM_UP_PART = 0.1  # no more than this part of a trace is left out as a warm-up
FEWEST, MOST = 20_000, 50_000  # requests in one simulation
SHORTEST, SHORTEST_BURSTY = 30.0, 60.0  # seconds
SHOWN = 4  # so many sizes of batches are shown, beside the smallest and the largest
UNNAMED = "NAME"  # stands for the name of a model that no configuration names


@dataclass(frozen=True, slots=True)
class Asked:
    """The options of the command that say what is tuned."""

    server: str | None
    file: Path | None
    model: str | None
    curve: str | None
    trace: Path | None
    rate: float | None
    bursts: float
    workers: int | None
    max_batch: int | None
    tiers: str | None
    tier: str | None
    seed: int
    live: bool  # whether only settings are tried that a running server takes over


@dataclass(frozen=True, slots=True)
class Tuned:
    """What is simulated."""

    model: str
    game: Game
    space: Space
    objective: float  # seconds, of the configuration; 0 if it says none
    in_force: InForce  # what the server says; empty if there is none
    assumed: list[str]  # what the advice holds for, in lines for people

    def key(self, name: str) -> KeyPath:
        """Returns the key of the configuration for one of the settings that are tried."""
        return ("tiers", "order") if name == "order" else ("models", self.model, name)


def gather(asked: Asked) -> Tuned:
    """Returns what is simulated. It may ask a server, and reads the configuration and the trace. Raises
    UserMistake."""
    in_force, learned = _of_server(asked.server)
    config = _config(asked, in_force)
    name = _only(list(config.models), asked.model)
    curve = _curve(asked, config, name, learned)
    found = learned.get(name)
    # The configuration has the workers of one process. It refuses to keep all of them back, however many processes
    # there are.
    reservable = asked.workers or config.models[name].workers
    config = _with_workers(config, asked, name, found)
    recorded = None if asked.trace is None else read(asked.trace, name if len(config.models) > 1 else None)
    schedule, warmup = _schedule(asked, recorded, found)
    shares = _shares(asked, recorded, config)
    scenario = scenario_of(config, name, shares=shares, warmed=True, seed=asked.seed, service=curve.service)
    ranks = tier_names(config)
    if asked.tier is not None and (shares is None or asked.tier not in shares):
        raise UserMistake(
            f"--tier {asked.tier}: say which part of the traffic it has: --tiers {asked.tier}=0.5,…"
        )
    rank = None if asked.tier is None else ranks.index(asked.tier)
    now = setting_of(scenario)
    sizes = config.models[name].batch_sizes
    space = space_of(
        now,
        workers=min(reservable, scenario.workers),
        largest=curve.max_batch,
        longest=curve.seconds(max(curve.max_batch, now.max_batch)),
        patience=scenario.queue_limit,
        several_tiers=shares is not None and len(shares) > 1,
        any_size=sizes in (ANY, POWERS),
        live=asked.live,
    )
    game = Game(scenario, schedule.times, costs_of(scenario, schedule), warmup, rank)
    assumed = _assumed(asked, curve, game, recorded, schedule, shares)
    return Tuned(name, game, space, config.models[name].objective or 0.0, in_force, assumed)


def _of_server(server: str | None) -> tuple[InForce, dict[str, Learned]]:
    if server is None:
        return InForce(), {}
    in_force = convert(ask(server, "/internal/config", option="--from"), InForce)
    return in_force, convert(ask(server, "/internal/health", option="--from"), Health).models


def _config(asked: Asked, in_force: InForce) -> Config:
    """Returns the settings in force. Over Redis only workers have those of a model; then a file says them."""
    told = told_config(Setting(row.key, row.value, row.source) for row in in_force.settings)
    if told.models:
        return told
    overrides: dict[str, object] = {"model.name": asked.model}
    config = load(asked.file, os.environ, {}) if asked.file is not None else Config()
    if not config.models:
        if asked.curve is None:
            raise UserMistake(
                "nothing says what to tune: --from URL of a running server, --config penstock.toml, or --curve"
                " '100ms x 32' with --workers"
            )
        overrides = {"model.name": asked.model or UNNAMED, "model.target": "sim:0s", "model.max_batch": None}
        overrides["model.max_batch"] = parse_curve(asked.curve, asked.max_batch).max_batch
        config = load(asked.file, os.environ, overrides)
    return config


def _with_workers(config: Config, asked: Asked, name: str, found: Learned | None) -> Config:
    """Returns the configuration with the workers that there are."""
    model = config.models[name]
    workers = asked.workers or (found.workers if found is not None else 0) or model.workers
    changed = replace(model, workers=workers, reserve=min(model.reserve, workers - 1))
    return replace(config, models={**config.models, name: changed})


def _only(models: list[str], chosen: str | None) -> str:
    if chosen is not None and chosen in models:
        return chosen
    if chosen is None and len(models) == 1:
        return models[0]
    raise UserMistake(f"choose one of the models with --model: {', '.join(models)}")


def _curve(asked: Asked, config: Config, name: str, learned: dict[str, Learned]) -> Curve:
    """Returns how long batches take. Its largest batch is the largest that may be tried."""
    if asked.curve is not None:
        return parse_curve(asked.curve, asked.max_batch)
    model = config.models[name]
    if asked.server is not None:
        found = learned_curve(learned, name, asked.server)
        return Curve(found.service, asked.max_batch or found.max_batch, found.source)
    if model.target.startswith("sim:"):
        return Curve(parse_service(model.target), asked.max_batch or model.max_batch, "of the simulated GPU")
    raise UserMistake(
        f"say how long a batch of {name} takes: --from URL of a server that has run some, or --curve '100ms x 32'"
    )


def _schedule(asked: Asked, recorded: Recorded | None, found: Learned | None) -> tuple[Schedule, float]:
    """Returns when requests arrive, and how many seconds at the beginning are not counted."""
    if recorded is not None:
        assert asked.trace is not None
        if asked.bursts > 1.0:
            raise UserMistake("--trace has its own bursts: leave out --bursts")
        trace = replayed(recorded, asked.trace, asked.rate or recorded.rate)
        times, span = trace.times[:MOST], trace.times[min(MOST, len(trace.times)) - 1]
        warmup = min(WARM_UP, WARM_UP_PART * span)
        return Schedule(times, trace.tokens, span - warmup, trace.credit, trace.sizes), warmup
    rate = asked.rate or (found.requests_per_second if found is not None else 0.0)
    if not rate:
        raise UserMistake("say what load to tune for: --trace FILE, or --rate 1000")
    bursty = asked.bursts > 1.0
    seconds = max(SHORTEST_BURSTY if bursty else SHORTEST, FEWEST / rate)
    traffic = Traffic(
        rate, min(seconds, max(MOST / rate, 1.0)), WARM_UP, "bursty" if bursty else "poisson", None, asked.seed,
        asked.bursts,
    )  # fmt: skip
    return make_schedule(traffic), WARM_UP


def _shares(asked: Asked, recorded: Recorded | None, config: Config) -> dict[str, float] | None:
    """Returns the part of the traffic that each tier has; None if all is of one tier."""
    if asked.tiers is not None:
        return dict(parse_clients(asked.tiers))
    found = None if recorded is None else recorded.tiers
    if found is None or len(found) < 2:
        return None
    if unknown := sorted(set(found) - set(tier_names(config))):
        raise UserMistake(
            f"the trace has requests of the tier {unknown[0]!r}, which the configuration does not name: say the"
            " parts with --tiers"
        )
    return dict(found)


def _assumed(
    asked: Asked,
    curve: Curve,
    game: Game,
    recorded: Recorded | None,
    schedule: Schedule,
    shares: dict[str, float] | None,
) -> list[str]:
    rate = (len(game.times) - 1) / (game.times[-1] - game.times[0])
    if recorded is None:
        load = f"with bursts of {asked.bursts:g} times that" if asked.bursts > 1 else "arriving independently"
    else:
        part = (
            ""
            if len(game.times) == len(recorded.times)
            else f"the first {MOST:,} of {len(recorded.times):,} "
        )
        load = f"{part}as recorded in {asked.trace}" + (f" ({schedule.source})" if schedule.source else "")
    sizes = _few([size for size, _ in curve.service.points if 1 < size < curve.max_batch])
    sizes = sorted({1, *sizes, curve.max_batch})
    times = ", ".join(f"{size} in {curve.seconds(size) * 1e3:.4g} ms" for size in sizes)
    workers = game.scenario.workers
    lines = [
        f"{len(game.times):,} requests, {rate:,.6g} a second, {load}",
        f"{workers} GPU{'' if workers == 1 else 's'}, each of which takes for a batch of {times} ({curve.source})",
        "a request that is refused or late counts with its whole time limit; no larger batch than"
        f" {curve.max_batch} was tried",
    ]
    if shares is not None:
        parts = ", ".join(f"{tier} {share:.0%}" for tier, share in shares.items())
        lines.append(f"tiers: {parts}" + (f"; the latency is that of {asked.tier}" if asked.tier else ""))
    if asked.live:
        lines.append("only what a running server takes over was tried; without --apply, max_batch too")
    return lines


def _few(sizes: list[int]) -> list[int]:
    """Returns some of the sizes, evenly chosen: enough to see how the curve goes."""
    return sizes[:: max(1, len(sizes) // SHOWN)]
