"""An autoscaler over a bus: sees by the heartbeats how much is asked of its models, and has workers added or
removed.

    registry ──► demand ──► core.scaling: how many, and why ──► hand: Kubernetes, a command, a supervisor

`roles/autoscaler.py` makes one for each process of `penstock autoscaler`. Several may run for the same models: the
one that has the lead decides, and the others stand by. A new leader begins with the workers that there are, and
removes none for a cool-down, because it has not seen the past.

Nobody is told twice. What the hand could not do is tried again, with longer and longer pauses, and with the number
that is wanted by then.
"""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from penstock.cluster.demand import Demand
from penstock.cluster.member import Member
from penstock.config import Config
from penstock.core.backoff import backoff
from penstock.core.scaling.scaler import Scaler
from penstock.core.scaling.seen import Seen
from penstock.from_config.scaling import scaling_rules
from penstock.gauges import ModelScalingGauges, ScalingGauges, ServerGauges
from penstock.ports import Clock
from penstock.ports.bus import Bus
from penstock.ports.scaling import Hand, NotScaled
from penstock.words.heartbeats import AutoscalerHeartbeat, ScalingReport

log = logging.getLogger("penstock.autoscaler")

FIRST_WAIT, LONGEST_WAIT = 1.0, 30.0  # seconds before what failed is tried again
AGAIN = 60.0  # seconds after which the number is asked for again, in case somebody else has changed it


class AutoscalerMember(Member):
    def __init__(
        self, config: Config, bus: Bus, hand: Hand, loop: asyncio.AbstractEventLoop, clock: Clock
    ) -> None:
        super().__init__("autoscalers", config, bus, loop, clock)
        settings = config.autoscaler
        self._clock = clock
        self._hand = hand
        self._rules, self._interval = scaling_rules(settings), settings.interval
        self._pool = ",".join(sorted(settings.models))
        self._demand = Demand(self.registry, settings.models)
        self._lead = bus.leadership(f"autoscaler:{self._pool}", self.name)
        self._led = False  # whether we led at the last look
        self._scalers: dict[str, Scaler] = {}  # by model; empty while another process leads
        self._seen: dict[str, Seen] = {}  # by model, how it stood at the last look
        self._wanted: int | None = None  # workers, for all models together; None while another process leads
        self._present = 0  # the workers that a model begins with, when it is first looked at
        self._done: int | None = None  # what the hand was asked for last; None if that may not hold any more
        self._to_do = asyncio.Event()  # set when the hand is to be asked
        self._complaint = ""  # why the hand failed last; empty once it has succeeded again
        self.failures = 0  # how often the hand failed since the start

    async def begin(self) -> None:
        self.loops.keep("the lead", self._lead.run)
        self.loops.keep("the look at the demand", self._run)
        self.loops.keep("the hand", self._act)

    def follow(self, before: Config, now: Config) -> None:
        """Go by other rules from now on. They begin with the workers that there are."""
        super().follow(before, now)
        if now.autoscaler != before.autoscaler:
            self._rules = scaling_rules(now.autoscaler)
            self._scalers.clear()
            if self._wanted is not None:
                self._present = self._wanted

    # ---- deciding ------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while True:
            try:
                await self._look()
            except NotScaled as error:
                self._failed(error)
            await asyncio.sleep(self._interval)

    async def _look(self) -> None:
        # This looks also while another autoscaler leads. Otherwise all that came meanwhile would count as new.
        self._seen = self._demand.look()
        leads = self._lead.leads and self.registry.reachable
        if leads and not self._led:
            present = await self._hand.present()
            self._take_over(self._demand.workers if present is None else present)
        elif not leads and self._led:
            log.warning("this autoscaler does not lead any more")
            self._scalers.clear()
            self._wanted = None
        self._led = leads
        if leads:
            self._decide()

    def _take_over(self, present: int) -> None:
        """Begin to lead. `present`: how many workers there are."""
        least = max(1, self._rules.least)  # until a model is known, at least one must be there to announce it
        self._wanted = max(least, min(self._rules.most, present))
        self._present, self._done = present, None
        log.info("this autoscaler leads", extra={"workers": present})
        self._to_do.set()

    def _decide(self) -> None:
        now, before = self._clock(), self._wanted
        assert before is not None
        for gone in self._scalers.keys() - self._seen.keys():  # a model that is not announced any more
            del self._scalers[gone]
        for model, seen in self._seen.items():
            if model not in self._scalers:
                self._scalers[model] = Scaler(self._rules, self._present, now)
            self._scalers[model].look(seen, now)
        if not self._scalers:
            self._present = before
            return
        neediest = max(self._scalers.values(), key=lambda scaler: scaler.wanted)
        self._wanted = self._present = neediest.wanted
        if self._wanted != before:
            log.info("workers", extra={"were": before, "wanted": self._wanted, "why": neediest.why})
            self._to_do.set()

    # ---- acting --------------------------------------------------------------------------------------------

    async def _act(self) -> None:
        while True:
            try:
                async with asyncio.timeout(AGAIN):
                    await self._to_do.wait()
            except TimeoutError:
                self._done = None
            self._to_do.clear()
            tries = 0
            while (wanted := self._wanted) is not None and wanted != self._done and self._lead.leads:
                try:
                    await self._hand.scale(wanted)
                    self._done, self._complaint = wanted, ""
                except NotScaled as error:
                    self._failed(error)
                    tries += 1
                    await asyncio.sleep(backoff(tries, FIRST_WAIT, LONGEST_WAIT, tries))

    def _failed(self, error: NotScaled) -> None:
        self.failures += 1
        if str(error) != self._complaint:  # the log says it once, and not with every try
            self._complaint = str(error)
            log.error("the number of workers could not be set", extra={"error": str(error)})

    # ---- life ----------------------------------------------------------------------------------------------

    @property
    def unfinished(self) -> int:
        return 0

    async def drain(self, seconds: float) -> bool:
        """Let another autoscaler lead. There is nothing to finish."""
        try:
            async with asyncio.timeout(seconds):
                await self._lead.give_up()
        except Exception as error:
            log.warning("the lead was not given up", extra={"error": str(error)})
        return True

    async def stop(self) -> None:
        await super().stop()
        await self._hand.close()

    # ---- how it stands -------------------------------------------------------------------------------------

    def describe(self) -> AutoscalerHeartbeat:
        settings, leads = self.config.autoscaler, self._lead.leads and self._wanted is not None
        return AutoscalerHeartbeat(
            pool=self._pool,
            leads=leads,
            workers=self._wanted or 0,
            minimum=settings.minimum,
            maximum=settings.maximum,
            models={name: self._report(scaler) for name, scaler in self._scalers.items()} if leads else {},
        )

    def _report(self, scaler: Scaler) -> ScalingReport:
        starts, ready_in = scaler.starts, scaler.starts.next_in(self._clock())
        return ScalingReport(
            wanted=scaler.wanted,
            ready=scaler.ready,
            start_seconds=round(starts.seconds, 1),
            measured=starts.measured,
            ready_in=None if ready_in is None else round(ready_in, 1),
            added=scaler.added,
            removed=scaler.removed,
            why=scaler.why,
        )

    def scale(self) -> Mapping[str, Any] | None:
        """How many workers there should be, by the autoscaler that leads: this one or another of its pool. None:
        none leads yet."""
        said = {**self.registry.members["autoscalers"], self.name: self.describe()}
        for name, each in said.items():
            if each.leads and each.pool == self._pool:
                return {
                    "workers": each.workers,
                    "minimum": each.minimum,
                    "maximum": each.maximum,
                    "leader": name,
                    "models": each.models,
                }
        return None

    def gauges(self) -> ServerGauges:
        return ServerGauges(
            aside=self.bus.aside.counts,
            restarts=self.loops.restarts,
            store=self.store_gauges(),
            scaling=ScalingGauges(
                leads=self._wanted is not None,
                workers=self._wanted,
                failures=self.failures,
                models={
                    name: ModelScalingGauges(
                        each.wanted, each.ready, each.starts.seconds, each.added, each.removed
                    )
                    for name, each in self._scalers.items()
                },
            ),
        )
