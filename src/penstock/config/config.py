"""The whole configuration: built once, never changed, and able to say where each value came from."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from penstock.config.schema import Key, NamedTables, Table, places
from penstock.config.sections import (
    Api,
    Auth,
    Idempotency,
    Ledger,
    Level,
    Limits,
    Model,
    Redis,
    Retries,
    Server,
    Tenant,
    Tiers,
    Timeouts,
    Tls,
)
from penstock.config.toml import KeyPath, dotted

DEFAULT = "default"


class Setting(NamedTuple):
    """One value in force."""

    key: str  # dotted
    value: str  # as TOML would have it; empty where it is not set
    source: str  # "default", "penstock.toml:12", "PENSTOCK_SERVER_PORT", "--port"


@dataclass(frozen=True, slots=True)
class Config:
    server: Server = Server()  # noqa: RUF009 - all sections are frozen
    api: Api = Api()  # noqa: RUF009
    tls: Tls = Tls()  # noqa: RUF009
    auth: Auth = Auth()  # noqa: RUF009
    ledger: Ledger = Ledger()  # noqa: RUF009
    redis: Redis = Redis()  # noqa: RUF009
    limits: Limits = Limits()  # noqa: RUF009
    idempotency: Idempotency = Idempotency()  # noqa: RUF009
    timeouts: Timeouts = Timeouts()  # noqa: RUF009
    retries: Retries = Retries()  # noqa: RUF009
    tiers: Tiers = field(default_factory=Tiers)
    tenants: Mapping[str, Tenant] = field(default_factory=dict)
    models: Mapping[str, Model] = field(default_factory=dict)
    sources: Mapping[str, str] = field(
        default_factory=dict, compare=False, repr=False
    )  # of what is not default

    def source(self, key: str) -> str:
        """Where the value of a dotted key came from."""
        return self.sources.get(key, DEFAULT)

    def explain(self) -> Iterator[Setting]:
        """Everything in force, section by section."""
        return self._explain(self, ())

    def _explain(self, section: Any, above: KeyPath) -> Iterator[Setting]:
        for name, place in places(type(section)).items():
            here, value = (*above, name), getattr(section, name)
            match place:
                case Key(kind=kind):
                    written = "" if value is None else kind.write(value)
                    yield Setting(dotted(here), written, self.source(dotted(here)))
                case Table(inner) if (
                    isinstance(section, Model) and name != section.protocol and value == inner()
                ):
                    pass  # of no interest to a model that is not a URL of this kind
                case Table():
                    yield from self._explain(value, here)
                case NamedTables():
                    for entry, inner in value.items():
                        yield from self._explain(inner, (*here, entry))

    def timeouts_of(self, model: str) -> Timeouts:
        """A model's own, and [timeouts] where it has none."""
        own = self.models[model]
        return replace(
            self.timeouts,
            queue=own.queue_timeout or self.timeouts.queue,
            processing=own.processing_timeout or self.timeouts.processing,
            request=own.request_timeout or self.timeouts.request,
        )

    def responds_async(self, model: Model) -> bool:
        """Whether a request to it becomes a task, unless its client asks otherwise."""
        return (model.respond or self.api.respond) == "async"

    def level_of(self, tenant: str) -> Level:
        """The tier of a tenant, or the default tier for one nobody has named."""
        named = self.tenants.get(tenant)
        return self.tiers.levels[(named and named.tier) or self.tiers.default]
