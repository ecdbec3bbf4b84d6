"""What a worker announces of a model, and the configuration that others make of it."""

from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import msgspec

from penstock.config import Config, Model
from penstock.config.kinds import Choice, Number, Whole
from penstock.config.schema import Key, places
from penstock.config.time_limits import own_limits

# What of a model the others must know. Not its target or headers: where it runs and with which secrets is the
# worker's business alone.
ANNOUNCED = (
    "max_batch", "max_wait", "policy", "input", "output", "cost", "max_cost", "group_lengths", "reserve", "version",
    "parameters", "deterministic", "cache", "cache_ttl", "default", "respond",
)  # fmt: skip


def announcement(config: Config, model: str) -> dict[str, object]:
    """Its time limits as far as this configuration sets any: gateways and batchers go by the same ones then."""
    own = config.models[model]
    said = {**asdict(own), "input": own.input_kind}  # which depends on the target
    return {name: said[name] for name in ANNOUNCED} | own_limits(config.timeouts, config.models, model)


def announced(said: Mapping[str, Any]) -> Model:
    """Of a newer worker we may hear what we do not know; of an older one we may miss something. Raises ValueError
    for values that no model can have."""
    known = {field.name for field in fields(Model)}
    values = {name: value for name, value in said.items() if name in known}
    model = msgspec.convert({**values, "target": "redis"}, Model)
    for name, place in places(Model).items():
        if isinstance(place, Key) and isinstance(place.kind, Choice | Number | Whole):
            value = getattr(model, name)
            if value is not None:
                place.kind.take(value)
    return model


def with_models(config: Config, models: Mapping[str, Mapping[str, Any]]) -> Config:
    return replace(config, models={name: announced(said) for name, said in models.items()})
