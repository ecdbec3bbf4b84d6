"""Turns a server's configuration into a scenario for the simulator: the same rules, limits and time-outs, with a
simulated GPU. `penstock sim` and `penstock tune` play that scenario (`cli/sim.py`, `cli/tuned.py`). Pure."""

from collections.abc import Mapping

from penstock.config import Config
from penstock.errors import UserMistake
from penstock.from_config.rules import admission_rules, batching_rules, capacity_rules
from penstock.from_config.tiers import tier_names, time_limits
from penstock.from_config.warm_up import ladder_of
from penstock.service_model import ServiceModel, parse_service
from penstock.sim.kernel import Scenario


def scenario_of(
    config: Config,
    name: str,
    *,
    # The part of the arrivals that each tier has; None: all are of one tier.
    shares: Mapping[str, float] | None = None,
    timeout: float | None = None,  # seconds that each client gives its request
    tenants: int = 1,
    admission: bool = True,
    # Whether workers are warmed up. They are in any case if the configuration has inputs for that.
    warmed: bool = False,
    seed: int = 0,
    # How long a batch takes on the GPU; None: as the target says, which must then be a simulated GPU.
    service: ServiceModel | None = None,
) -> Scenario:
    """Returns the scenario of one model. `admission`: whether requests may be refused. Raises UserMistake."""
    model, timeouts = config.models[name], config.timeouts_of(name)
    if service is None:
        if not model.target.startswith("sim:"):
            raise UserMistake("say how long a batch takes on your GPU: --service 100ms, or a=50ms,b=0.5ms")
        service = parse_service(model.target)
    queue_limit, request_limit = timeouts.queue, timeouts.request
    tier_limits = time_limits(config, name)
    if timeout is not None:
        queue_limit = request_limit = min(timeout, timeouts.max_client)
        tier_limits = []
    return Scenario(
        service=service,
        workers=model.workers,
        rules=batching_rules(name, config),
        admission=admission_rules(config) if admission else None,
        capacity=capacity_rules(config),
        queue_limit=queue_limit,
        request_limit=request_limit,
        tier_shares=_by_rank(config, shares) if shares else (1.0,),
        tier_limits=tier_limits if len(set(tier_limits)) > 1 else (),
        tenants=tenants,
        warmed=ladder_of(model) if warmed or model.warmup else (),
        seed=seed + service.seed,
    )


def _by_rank(config: Config, shares: Mapping[str, float]) -> tuple[float, ...]:
    names = tier_names(config)
    for tier in shares:
        if tier not in names:
            raise UserMistake(f"--tiers: there is no tier {tier!r}; there are {', '.join(names)}")
    return tuple(shares.get(name, 0.0) for name in names)
