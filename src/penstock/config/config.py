"""The whole configuration: built once by `load`, never changed, and able to say where each value came from.
`roles`, `cluster`, `from_config`, `server` and the commands read it; `penstock check` prints `explain`."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from penstock.config.schema import Key, NamedTables, Table, items
from penstock.config.sections import (
    Api,
    Auth,
    Autoscaler,
    Doors,
    Files,
    Idempotency,
    Ledger,
    Limits,
    Model,
    Redis,
    Retries,
    Server,
    Tenant,
    Tiers,
    Timeouts,
    Tls,
    Trace,
    Tracing,
    Webhooks,
)
from penstock.config.time_limits import PARTS, TimeLimits, decide, time_limits
from penstock.config.toml import KeyPath, dotted

DEFAULT = "default"
MAX_CLIENT, FIRST_BATCH = ("timeouts", "max_client"), ("timeouts", "first_batch")


class Setting(NamedTuple):
    """One value in force, for `penstock check`."""

    key: str  # dotted
    value: str  # as TOML would have it; empty where it is not set
    source: str  # "default", "penstock.toml:12", "PENSTOCK_SERVER_PORT", "--port"


@dataclass(frozen=True, slots=True)
class Config:
    """All settings: one field for each section of penstock.toml."""

    server: Server = Server()  # noqa: RUF009 - all sections are frozen
    api: Api = Api()  # noqa: RUF009
    doors: Doors = Doors()  # noqa: RUF009
    tls: Tls = Tls()  # noqa: RUF009
    auth: Auth = Auth()  # noqa: RUF009
    ledger: Ledger = Ledger()  # noqa: RUF009
    tracing: Tracing = Tracing()  # noqa: RUF009
    trace: Trace = Trace()  # noqa: RUF009
    redis: Redis = Redis()  # noqa: RUF009
    autoscaler: Autoscaler = Autoscaler()  # noqa: RUF009
    limits: Limits = Limits()  # noqa: RUF009
    idempotency: Idempotency = Idempotency()  # noqa: RUF009
    webhooks: Webhooks = Webhooks()  # noqa: RUF009
    files: Files = Files()  # noqa: RUF009
    timeouts: Timeouts = Timeouts()  # noqa: RUF009
    retries: Retries = Retries()  # noqa: RUF009
    tiers: Tiers = field(default_factory=Tiers)
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    # By dotted key: where each value came from that is not the default.
    sources: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)

    def source(self, key: str) -> str:
        """Returns where the value of a dotted key came from."""
        return self.sources.get(key, DEFAULT)

    def explain(self) -> Iterator[Setting]:
        """Yields every setting with the value in force, section by section, for `penstock check`."""
        return self._explain(self, ())

    def _explain(self, section: Any, above: KeyPath) -> Iterator[Setting]:
        for name, item in items(type(section)).items():
            here, value = (*above, name), getattr(section, name)
            match item:
                case Key(kind=kind):
                    key = dotted(here)
                    value, source = self._in_force(here, value, self.source(key))
                    yield Setting(key, "" if value is None else kind.write(value), source)
                case Table(inner) if (
                    isinstance(section, Model) and name != section.protocol and value == inner()
                ):
                    pass  # left out: the model's target is no URL of this protocol
                case Table():
                    yield from self._explain(value, here)
                case NamedTables():
                    for chosen, inner in value.items():
                        yield from self._explain(inner, (*here, chosen))

    def _in_force(self, path: KeyPath, value: Any, source: str) -> tuple[Any, str]:
        """Returns a value and its source; for a time limit that is not set, those of the setting that it
        follows."""
        if path in (MAX_CLIENT, FIRST_BATCH):
            limit = "request" if path == MAX_CLIENT else "processing"
            least = decide(self.timeouts, self.models, None, limit)
            return (value, source) if value >= least.seconds else (least.seconds, f"follows {least.key}")
        if path[0] == "timeouts" and path[1] in PARTS:
            model, limit = None, path[1]
        elif path[0] == "models" and path[2].removesuffix("_timeout") in PARTS:
            model, limit = path[1], path[2].removesuffix("_timeout")
        else:
            return value, source
        seconds, key = decide(self.timeouts, self.models, model, limit)
        if value is not None or (model is not None and key.startswith("timeouts.")):
            return value, source  # the key is set, or no key of this model decides it
        return seconds, source if self.source(key) == DEFAULT else f"follows {key}"

    def timeouts_of(self, model: str | None) -> TimeLimits:
        """Returns the time limits of a model. For None: those of a model that sets none itself."""
        return time_limits(self.timeouts, self.models, model)

    def responds_async(self, model: Model) -> bool:
        """Returns whether a request to this model becomes a task, unless its client asks otherwise."""
        return (model.respond or self.api.respond) == "async"
