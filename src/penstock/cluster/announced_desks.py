"""The desks of a gateway over a bus: one for each model that a worker has announced.

The gateway calls `look` whenever the registry has changed, and finds the desk of each request here. Nothing here
awaits. A desk goes by this process's configuration, in which the model's own settings are those of the
announcement. A desk may change and is never removed: without a worker, its model is just not ready.
"""

from collections import defaultdict
from collections.abc import Callable
from functools import partial

from penstock.cluster.announcements import with_model
from penstock.cluster.condition import TakesBytes, has_worker, slack_of, worker_rows
from penstock.cluster.gateway_admission import GatewayAdmission
from penstock.config import Config
from penstock.from_config.input_cost import cost_of
from penstock.from_config.rules import largest_batch
from penstock.from_config.sharing import as_announced
from penstock.from_config.tiers import time_limits
from penstock.ports import Broker
from penstock.ports.bus import Aside
from penstock.ports.registry import Registry
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.desk import Admit, Desk
from penstock.runtime.desks import follow_versions
from penstock.runtime.parameter_filter import with_scalars_only
from penstock.words.announcements import ModelAnnouncement


class AnnouncedDesks:
    def __init__(
        self,
        config: Config,
        registry: Registry,
        broker: Broker[Passenger],
        admission: GatewayAdmission,
        aside: Aside,
        on_desk: Callable[[str], None],
    ) -> None:
        """`on_desk` is told of each model whose desk is new, or has changed."""
        self._config, self._registry, self._broker = config, registry, broker
        self._admission, self._aside, self._on_desk = admission, aside, on_desk
        self._heard_of: dict[str, ModelAnnouncement] = {}  # the models as they were announced last
        self._take_bytes: defaultdict[str, TakesBytes] = defaultdict(TakesBytes)  # by model
        self.desks: dict[str, Desk] = {}  # by model

    def follow(self, config: Config) -> None:
        """Go by this process's configuration as it is now, for the models that are known too."""
        self._config = config
        for name, said in self._heard_of.items():
            self._meet(name, said)

    def look(self) -> None:
        """Look at what is announced: models come with the workers that announce them."""
        for name, said in self._registry.models.items():
            if self._heard_of.get(name) != said:
                self._heard_of[name] = said
                self._meet(name, said)
        rows = worker_rows(self._registry)
        follow_versions(self.desks.values(), rows)
        for name in self.desks:
            self._take_bytes[name].look(row for row in rows if row.model == name)

    def _meet(self, name: str, said: ModelAnnouncement) -> None:
        """Open or change the desk of a model. An announcement that cannot be used changes nothing: a model that
        is known is served as before."""
        try:
            desk = self._desk(name, said)
        except Exception as error:
            self._aside.add("model", name, f"{type(error).__name__}: {error}", repr(said).encode())
            return
        self.desks[name] = desk
        self._on_desk(name)

    def _desk(self, name: str, said: ModelAnnouncement) -> Desk:
        config, former = with_model(self._config, name, said), self.desks.get(name)
        model = config.models[name]
        admit: Admit = partial(self._admission.refusal, name, model.max_cost)
        return Desk(
            model=name,
            kind=model.input_kind,
            broker=self._broker,
            admit=with_scalars_only(admit) if said.scalar_parameters else admit,
            admit_more=partial(self._admission.refusal_of_more, name),
            backlog_seconds=partial(self._admission.backlog_seconds, name),
            cost=cost_of(model.cost),
            takes_parameters=lambda: said.takes_parameters,
            parameter_names=lambda: said.parameter_names,
            time_limits=time_limits(config, name),
            longest_limit=config.timeouts_of(name).max_client,
            sharing=as_announced(name, model, None if former is None else former.sharing),
            default=model.default,
            responds_async=self._config.responds_async(model),
            takes_bytes=self._take_bytes[name],
            output=model.output,
            max_batch=largest_batch(model),
            ready=partial(has_worker, self._registry, name),
            objective=model.objective,
            slack=partial(slack_of, self._registry, name),
        )
