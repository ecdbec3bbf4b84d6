"""One time-out, and the limits that follow from it: half of it to queue, three quarters for a batch, all to answer.
`config.py` works out the limits of each model here, `consistency.py` asks which setting decides a limit, and a
worker announces its model's limits (`cluster/announcements.py`). Pure.

A limit is decided by the first of these that is set:

    models.x.queue_timeout ► models.x.timeout ► timeouts.queue ► timeouts.timeout      (and likewise the others)

Two limits are raised where they would be too short: a client may always ask for as long as any request has, and the
first batch of a worker may always take as long as any other.
"""

from collections.abc import Mapping
from typing import NamedTuple

from penstock.config.sections import Model, Timeouts
from penstock.config.toml import dotted

PARTS = {"queue": 0.5, "processing": 0.75, "request": 1.0}  # the part of the time-out that each limit is


class TimeLimits(NamedTuple):
    """All time limits of one model, in seconds."""

    queue: float
    processing: float
    request: float
    max_client: float
    first_batch: float


class Decided(NamedTuple):
    """A limit, and what decided it."""

    seconds: float
    key: str  # the dotted key of the setting that decided it


def decide(timeouts: Timeouts, models: Mapping[str, Model], name: str | None, limit: str) -> Decided:
    """Returns one limit of a model. If `name` is None: the limit for models that set no limit of their own. `limit`
    is one of PARTS."""
    model = None if name is None else models[name]
    if name is not None and model is not None:
        own: float | None = getattr(model, f"{limit}_timeout")
        if own is not None:
            return Decided(own, dotted(("models", name, f"{limit}_timeout")))
        if model.timeout is not None:
            return Decided(model.timeout * PARTS[limit], dotted(("models", name, "timeout")))
    common: float | None = getattr(timeouts, limit)
    if common is not None:
        return Decided(common, f"timeouts.{limit}")
    return Decided(timeouts.timeout * PARTS[limit], "timeouts.timeout")


def time_limits(timeouts: Timeouts, models: Mapping[str, Model], name: str | None) -> TimeLimits:
    """Returns all limits of a model. If `name` is None: those of a model that sets none itself."""
    queue, processing, request = (decide(timeouts, models, name, limit).seconds for limit in PARTS)
    first = None if name is None else models[name].first_batch_timeout
    return TimeLimits(
        queue,
        processing,
        request,
        max(timeouts.max_client, request),
        max(timeouts.first_batch if first is None else first, processing),
    )


def own_limits(timeouts: Timeouts, models: Mapping[str, Model], name: str) -> dict[str, float | None]:
    """Returns a model's limits as this configuration sets them, by their keys in a model; None for one that is not
    set.

    A worker announces them to other processes, which use their own [timeouts] for what is not set.
    """
    defaults = Timeouts()
    limits: dict[str, float | None] = {}
    for limit in PARTS:
        seconds, key = decide(timeouts, models, name, limit)
        unset = key == "timeouts.timeout" and timeouts.timeout == defaults.timeout
        limits[f"{limit}_timeout"] = None if unset else seconds
    first = models[name].first_batch_timeout
    if first is None and timeouts.first_batch != defaults.first_batch:
        first = timeouts.first_batch
    limits["first_batch_timeout"] = first
    return limits
