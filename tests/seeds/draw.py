"""What a seed says of a run: the installation, who asks, and how much goes wrong."""

from dataclasses import dataclass
from random import Random

from penstock.config import Config, Level, Limits, Model, Redis, Retries, Tiers

MODEL = "double"
TENANTS = ("", "ann", "bob")
POLICIES = ("paced", "greedy", "window", "ewma")
FAULTS = ("kill", "kill", "stall", "cut", "cut there", "cut back", "slow", "away", "drain", "come")


@dataclass(frozen=True, slots=True)
class Drawn:
    """One run, as its seed made it."""

    seed: int
    config: Config
    zones: tuple[str, ...]
    gateways: int
    batchers: int
    workers: int
    batch_seconds: float
    runs_ahead: bool
    asks: int
    asking_seconds: float
    leaves: float  # the part of clients that leave
    tasks: float  # the part of requests that are tasks
    keyed: float  # the part that has an Idempotency-Key
    poison: float  # the part of inputs that spoil their batches
    trouble: float  # the part of batches that fail for no fault of an input, while there are faults
    faults: int
    obituaries: bool  # whether a supervisor tells of deaths at once
    same: bool  # whether several clients send the same input


def draw(seed: int, *, calm: bool = False) -> Drawn:
    """`calm`: nothing goes wrong."""
    rng = Random(f"penstock {seed}")
    lease = rng.choice((0.5, 1.0, 1.0))
    largest = rng.choice((1, 2, 4, 8, 16))
    sizes: str | tuple[int, ...] = "any"
    if largest >= 4 and rng.random() < 0.25:
        sizes = tuple(sorted({1, 2, largest // 2, largest}))
    deterministic = rng.random() < 0.3
    model = Model(
        target="sim:1ms",
        max_batch=largest,
        batch_sizes=sizes,
        workers=rng.choice((1, 1, 2, 3)),
        max_wait=rng.choice((0.0, 0.01, 0.05)),
        policy=rng.choice(POLICIES),
        deterministic=deterministic,
        health_interval=rng.choice((0.5, 5.0)),
    )
    several = {"good": Level(0, 4.0), "all": Level(1, 1.0)}
    tiers = Tiers(default="all", levels=several if rng.random() < 0.4 else {"all": Level(0)})
    config = Config(
        models={MODEL: model},
        redis=Redis(lease=lease, heartbeat=lease / 4),
        limits=Limits(max_queue=rng.choice((50, 20_000, 20_000))),
        tiers=tiers,
        retries=Retries(attempts=rng.choice((2, 3, 3))),
    )
    zones = rng.choice(((), (), ("a", "b")))
    return Drawn(
        seed=seed,
        config=config,
        zones=zones,
        gateways=rng.randint(1, 3) if not zones else 2,
        batchers=rng.randint(1, 3) if not zones else 2,
        workers=rng.randint(1, 3) if not zones else 2,
        batch_seconds=rng.choice((0.002, 0.02, 0.05, 0.2)),
        runs_ahead=rng.random() < 0.5,
        asks=rng.randint(5, 60),
        asking_seconds=rng.uniform(0.2, 4.0),
        leaves=rng.choice((0.0, 0.1, 0.4)),
        tasks=rng.choice((0.0, 0.2, 0.5)),
        keyed=rng.choice((0.0, 0.0, 0.2, 0.4)),
        poison=0.0 if calm else rng.choice((0.0, 0.0, 0.05, 0.15)),
        trouble=0.0 if calm else rng.choice((0.0, 0.0, 0.05, 0.2)),
        faults=0 if calm else rng.choice((0, 1, 1, 2, 3, 5, 8)),
        obituaries=rng.random() < 0.5,
        same=deterministic and rng.random() < 0.8,
    )
