"""Turns the configuration of a model into the announcement by which a worker makes the model known, and an
announcement back into configuration. A worker does the first, gateways and batchers do the second. Nothing is sent
here."""

from dataclasses import asdict, replace

import msgspec
from msgspec import UNSET

from penstock.config import Config, Model
from penstock.config.batch_sizes import ANY, BatchSizes
from penstock.config.kinds import Choice, Number, Whole
from penstock.config.schema import Key, items
from penstock.config.sections import SUM
from penstock.config.time_limits import own_limits
from penstock.words.announcements import ModelAnnouncement

# Fields of the announcement that are not settings: which parameters a function takes is known once it has started.
_LEARNED = ("takes_parameters", "parameter_names", "scalar_parameters", "format")
# Fields that are left out where they have their default.
_SPARED = {"batch_sizes": ANY, "batch_cost": SUM, "objective": None}
_CONFIGURED = [name for name in ModelAnnouncement.__struct_fields__ if name not in (*_LEARNED, *_SPARED)]


def announcement_of(
    config: Config, name: str, takes_parameters: bool = True, parameter_names: list[str] | None = None
) -> ModelAnnouncement:
    """What to announce of a model. The time limits that this configuration sets are included, so that gateways and
    batchers go by the same ones."""
    model = config.models[name]
    said = {**asdict(model), **own_limits(config.timeouts, config.models, name), "input": model.input_kind}
    return ModelAnnouncement(
        **{item: said[item] for item in _CONFIGURED},
        takes_parameters=takes_parameters,
        parameter_names=parameter_names,
        scalar_parameters=model.protocol == "grpc",
        batch_cost=UNSET if model.batch_cost == SUM else model.batch_cost,
        batch_sizes=UNSET if model.batch_sizes == ANY else model.batch_sizes,
        objective=UNSET if model.objective is None else model.objective,
    )


def model_of(said: ModelAnnouncement) -> Model:
    """The model as it was announced. Raises ValueError for values that no model can have."""
    values = {item: getattr(said, item) for item in _CONFIGURED}
    for item, usual in _SPARED.items():
        values[item] = usual if getattr(said, item) is UNSET else getattr(said, item)
    model = msgspec.convert({**values, "target": "redis"}, Model)
    for item, setting in items(Model).items():
        if isinstance(setting, Key) and isinstance(setting.kind, BatchSizes | Choice | Number | Whole):
            value = getattr(model, item)
            if value is not None:
                setting.kind.take(value)  # raises ValueError
    if isinstance(model.batch_sizes, tuple) and model.batch_sizes[-1] > model.max_batch:
        raise ValueError(
            f"batch_sizes goes up to {model.batch_sizes[-1]}, and max_batch is {model.max_batch}"
        )
    return model


def with_model(config: Config, name: str, said: ModelAnnouncement) -> Config:
    """The configuration with only this model in it. Raises ValueError as `model_of` does."""
    return replace(config, models={name: model_of(said)})
