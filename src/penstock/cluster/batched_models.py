"""The models that a batcher forms batches for: those that workers have announced. For each of them there is a pump
(the loop that forms batches), an admission (who is let in) and a borrower of slots. The batcher
(`cluster/batcher.py`) looks its requests' models up here."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from penstock.cluster.announcements import with_model
from penstock.cluster.borrowing import Borrower
from penstock.cluster.spilling import Spiller
from penstock.config import Config
from penstock.core.admission import Admission
from penstock.core.batcher import Batcher
from penstock.core.forecast import backlog_seconds
from penstock.core.lending import NOTHING, Loan
from penstock.core.queued import Sealed
from penstock.core.rules import BatchingRules
from penstock.from_config.rules import admission_rules, batching_rules, capacity_rules
from penstock.from_config.tiers import tier_names
from penstock.gauges import ModelGauges
from penstock.loops import Loops
from penstock.ports import Clock, Observer
from penstock.ports.bus import Bus
from penstock.runtime.model_condition import capacity_health, model_gauges
from penstock.runtime.pump import Pump
from penstock.types import Reply, WorkerId
from penstock.words.announcements import ModelAnnouncement
from penstock.words.heartbeats import LoadReport

log = logging.getLogger("penstock.batcher")


class BatchedModels:
    def __init__(
        self,
        config: Config,
        bus: Bus,
        loops: Loops,
        observer: Observer,
        on_model: Callable[[str], None],
        deliver: Callable[[Sequence[Reply]], None],
        send: Callable[[WorkerId, Sealed], None],
        is_gone: Callable[[str], bool],
        zone_of: Callable[[str], str],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
    ) -> None:
        """`on_model` is told of each new model. `deliver` is given the replies of all pumps, and `send` their
        batches. `is_gone`: says whether a slot is known to have gone. `zone_of`: says in which zone a slot is."""
        self._config, self._bus, self._loops = config, bus, loops
        self._observer, self._on_model = observer, on_model
        self._deliver, self._send, self._is_gone, self._zone_of = deliver, send, is_gone, zone_of
        self._loop, self._clock = loop, clock
        # By model: what workers announced last, and the announcement that its pump goes by.
        self._announced: dict[str, ModelAnnouncement] = {}
        self._in_force: dict[str, ModelAnnouncement] = {}
        self._capacity = capacity_rules(config)
        self._tiers = tier_names(config)
        self._share = 0.0  # the part of all requests that comes here, by the shards we lease
        self.pumps: dict[str, Pump] = {}  # by model
        self.admissions: dict[str, Admission] = {}  # by model
        self.arrived: Counter[str] = Counter()  # requests that came, by model, since the start
        self._spillers: dict[str, Spiller] = {}  # by model, once another zone had workers to lend

    def look(self, models: Mapping[str, ModelAnnouncement]) -> None:
        """Take in what is announced now."""
        for name, said in models.items():
            if self._announced.get(name) != said.batching:
                self._announced[name] = said.batching
                self._meet(name, said)

    def take_share(self, share: float) -> None:
        """Take in which part of all requests comes here, so that each pump counts on that part of the workers."""
        self._share = share
        for pump in self.pumps.values():
            if pump.batcher.share != share:
                pump.batcher.share = share

    def take_loans(self, loans: Mapping[str, Loan]) -> None:
        """Take in what other zones lend, by model."""
        for name, pump in self.pumps.items():
            loan = loans.get(name, NOTHING)
            pump.batcher.other_zones_lend(loan.workers, ours=loan.lends)
            spiller = self._spillers.get(name)
            if spiller is None and loan.zones:
                spiller = self._spillers[name] = self._spiller(name, pump)
            if spiller is not None:
                spiller.ask(loan.zones)

    def _spiller(self, name: str, pump: Pump) -> Spiller:
        line = self._bus.credits(self._config.server.zone)
        spiller = Spiller(name, pump, line, self._send, self._is_gone, self._zone_of, self._clock)
        self._loops.keep(f"the spiller of {name}", spiller.run)
        return spiller

    def _meet(self, name: str, said: ModelAnnouncement) -> None:
        """Take in an announcement that is new or has changed."""
        if name in self.pumps:
            if not self._take_over(name, said):
                log.warning(
                    "a model was announced anew; restart the batchers to follow", extra={"model": name}
                )
            return
        try:
            self._open(name, said)
        except Exception as error:  # other models are served, and this one is tried again at the next look
            del self._announced[name]
            self._bus.aside.add("model", name, f"{type(error).__name__}: {error}", repr(said).encode())

    def follow(self, config: Config) -> None:
        """Go by this process's configuration as it is now. What a worker has announced of a model still counts."""
        self._config, self._capacity = config, capacity_rules(config)
        for name in self.pumps:
            self._take_over(name, self._in_force[name])

    def _take_over(self, name: str, said: ModelAnnouncement) -> bool:
        """Take over what a worker has announced of a model that is known. Returns False if it differs in something
        that cannot change while requests wait; then everything stays as it was."""
        batcher = self.pumps[name].batcher
        try:
            config = with_model(self._config, name, said)
        except Exception as error:
            self._bus.aside.add("model", name, f"{type(error).__name__}: {error}", repr(said).encode())
            return True
        rules = _shared_rules(name, config)
        if not rules.can_follow(batcher.rules):
            return False
        self._in_force[name] = said
        batcher.follow(rules)
        self.admissions[name].follow(admission_rules(config), self._capacity)
        self.pumps[name].look_again()
        return True

    def _open(self, name: str, said: ModelAnnouncement) -> None:
        config = with_model(self._config, name, said)
        batcher = Batcher(_shared_rules(name, config))
        admission = Admission(batcher, admission_rules(config), self._capacity)
        self._on_model(name)
        pump = Pump(batcher, self._deliver, self._observer, self._loop, self._clock)
        line = self._bus.credits(self._config.server.zone)
        borrower = Borrower(name, pump, line, self._send, self._is_gone, self._clock, zone_of=self._zone_of)
        batcher.share = self._share
        # The model becomes known only now, when all is there: others look for its pump first, and expect the rest.
        self._in_force[name] = said
        self.pumps[name], self.admissions[name] = pump, admission
        self._loops.keep(f"the borrower of {name}", borrower.run)

    # ---- how they stand ------------------------------------------------------------------------------------

    def describe(self) -> dict[str, LoadReport]:
        """How each model stands, for the registry."""
        now = self._clock()
        return {name: self._describe(pump.batcher, now) for name, pump in self.pumps.items()}

    def _describe(self, batcher: Batcher, now: float) -> LoadReport:
        return LoadReport(
            queue_depth=batcher.waiting,
            requests_per_second=round(batcher.rate(now), 3),
            **capacity_health(batcher, self._capacity),
            workers_healthy=batcher.fleet.everywhere,
            backlog_seconds=round(backlog_seconds(batcher, now), 3),
            late=batcher.wants_abroad(now),
            padded_share=round(batcher.padded_share, 4),
            arrived=self.arrived[batcher.rules.model],
            policy=batcher.rules.policy,
            best_batch=batcher.curve.best_size,
        )

    def gauges(self) -> dict[str, ModelGauges]:
        now = self._clock()
        return {
            name: model_gauges(pump.batcher, self._capacity, self._tiers, now, 0)
            for name, pump in self.pumps.items()
        }

    def dead(self) -> list[str]:
        return [word for pump in self.pumps.values() for word in pump.dead()]

    def drain(self) -> None:
        for pump in self.pumps.values():
            pump.drain()

    def close(self) -> None:
        for pump in self.pumps.values():
            pump.close()


def _shared_rules(name: str, config: Config) -> BatchingRules:
    """The rules of a model whose workers other batchers use too."""
    return replace(batching_rules(name, config), shared=True)
