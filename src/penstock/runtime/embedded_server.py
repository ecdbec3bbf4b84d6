"""The inside of a server that does everything in one process: its start and end, and answers for the admin plane.

There is one in each `penstock serve`. `roles/process.py` starts, drains and stops it, and the admin plane asks how
it stands. Requests do not go through here, but from the gateway to the pumps.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from penstock.errors import BackendError, UserMistake
from penstock.gauges import ServerGauges
from penstock.loops import Loops
from penstock.ports import Clock, Observer
from penstock.ports.observers import Remembered
from penstock.ports.process import Companion, Listener
from penstock.runtime.collapse.flight import AnswerMemory
from penstock.runtime.condition import UNHEALTHY, WorkerRow, worst
from penstock.runtime.dead_letters import DeadLetters
from penstock.runtime.desk import Desk
from penstock.runtime.desks import counts_of, desk_gauges
from penstock.runtime.gateway import Gateway
from penstock.runtime.idempotency import KeyedStore
from penstock.runtime.served_model import ServedModel
from penstock.runtime.tasks import TaskStore
from penstock.runtime.waiters import OUT_OF_TIME
from penstock.runtime.wheel import Wheel
from penstock.types import WorkerId

log = logging.getLogger("penstock")

COMPANIONS = "the companions"  # a part that must have started, beside the models


class EmbeddedServer:
    role = "serve"  # which role this process has, in the metrics

    def __init__(
        self,
        models: Mapping[str, ServedModel],
        functions: Collection[str],
        desks: Mapping[str, Desk],
        gateway: Gateway,
        tasks: TaskStore,
        keyed: KeyedStore,
        dead_letters: DeadLetters,
        memory: AnswerMemory,
        wheel: Wheel,
        tiers: Sequence[str],
        observer: Observer,
        remembered: Remembered,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        companions: Sequence[Companion] = (),
    ) -> None:
        """`functions`: the models that are functions. `remembered`: the requests that have ended of late.
        `companions` are opened in their order, and closed last."""
        self._models, self._functions, self._desks = models, functions, desks
        self.gateway, self._tasks, self._keyed, self._dead_letters = gateway, tasks, keyed, dead_letters
        self._memory, self._wheel, self._tiers = memory, wheel, tiers
        self._remembered = remembered
        self._observer, self._clock = observer, clock
        self._companions = companions
        self._not_started = {*models, COMPANIONS}  # the parts that have not said yet that they started
        self._retired = False  # whether the process is ending, so that it is not ready for more
        self._listeners: Sequence[Listener] = ()
        # Done once the server has started, or failed with the mistake that keeps it from starting.
        self.started: asyncio.Future[None] = loop.create_future()
        self.loops = Loops()

    # ---- life --------------------------------------------------------------------------------------------

    def start(self) -> None:
        self._observer.start()
        self.loops.send("opening the companions", self._open())  # opening may take a while
        for model in self._models.values():
            for slot in model.slots:
                self.loops.keep(f"the slot {slot.worker}", slot.run)

    async def _open(self) -> None:
        """Open the companions, one after the other. One of them reads the API keys, without which nobody can be let
        in."""
        try:
            for companion in self._companions:
                await companion.open(self.loops)
        except Exception as error:  # whatever it is, somebody waits for the start to end
            if not self.started.done():
                self.started.set_exception(error)
        else:
            self._part_started(COMPANIONS)

    def worker_started(self, model: str, worker: WorkerId, error: BackendError | None) -> None:
        """Note how a worker started. If a function cannot even start, that is the operator's mistake, and the
        server does not start. An endpoint may yet come up."""
        if error is not None:
            if model in self._not_started and model in self._functions and not self.started.done():
                self.started.set_exception(UserMistake(error.message, details=error.details))
                return
            log.error("worker did not start", extra={"worker": worker, "error": error.message})
        self._part_started(model)

    def _part_started(self, part: str) -> None:
        self._not_started.discard(part)
        if not self._not_started and not self.started.done():
            self.started.set_result(None)

    def watch(self, admin_url: str, listeners: Sequence[Listener]) -> None:
        """Note the listeners, whose end makes this server dead."""
        self._listeners = listeners

    @property
    def unfinished(self) -> int:
        return len(self.gateway.waiters)

    def retire(self) -> None:
        """Say from now on that the server is not ready, since it is about to end."""
        self._retired = True

    def abandon(self) -> None:
        """Answer everyone who still waits: the time to finish is up."""
        self.gateway.waiters.end_all(OUT_OF_TIME)

    async def drain(self, seconds: float) -> bool:
        """Accept nothing more, and finish what was accepted. Returns True if all of it was finished in time."""
        for model in self._models.values():
            model.pump.drain()
        return await self.gateway.drained(seconds)

    async def stop(self) -> None:
        await self.loops.close()
        for model in self._models.values():
            for pump in model.pumps:
                pump.close()
        self._wheel.close()
        for companion in self._companions:
            await companion.close()
        await self._observer.close()

    # ---- the admin plane's questions -----------------------------------------------------------------------

    def dead_loops(self) -> Sequence[str]:
        """Why `/livez` fails: each loop or listener that has ended or is stuck, in words."""
        dead = self.loops.dead()
        dead += [f"the listener at {listener.url} has ended" for listener in self._listeners if listener.dead]
        return dead + [
            word for model in self._models.values() for pump in model.pumps for word in pump.dead()
        ]

    def not_ready(self) -> str:
        """Why the server is not ready for requests, in words; empty if it is."""
        if self._retired:
            return "draining"
        if not self.started.done():
            return "starting"
        loading = [name for name, model in self._models.items() if model.loading()]
        if loading:
            return f"loading {', '.join(loading)}"
        without = [name for name, model in self._models.items() if not model.ready()]
        return f"no healthy worker for {', '.join(without)}" if without else ""

    def health(self) -> dict[str, Any]:
        now = self._clock()
        models = {name: model.health(now) for name, model in self._models.items()}
        status = UNHEALTHY if self.dead_loops() else worst(model["status"] for model in models.values())
        return {
            "status": status,
            "draining": self._retired,
            "gpu_utilization": max((model["gpu_utilization"] for model in models.values()), default=0.0),
            "queue_depth": sum(model["queue_depth"] for model in models.values()),
            "requests_per_second": round(sum(model["requests_per_second"] for model in models.values()), 3),
            "waiting_clients": len(self.gateway.waiters),
            "tasks": len(self._tasks),
            "idempotency_keys": len(self._keyed),
            "models": models,
        }

    def workers(self) -> Sequence[WorkerRow]:
        now = self._clock()
        return [row for model in self._models.values() for row in model.workers(now, leaving=self._retired)]

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        found = self.gateway.describe(request_id) or self._remembered.find(request_id)
        task = self._tasks.peek(request_id, tenant or None) if found is None else None
        if task is None or task.answer is None:
            return found
        return self._remembered.describe_reply(task.answer, self._tasks.ended_at(task))

    async def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        return self._remembered.slowest(most, model)

    def gauges(self) -> ServerGauges:
        now = self._clock()
        return ServerGauges(
            {name: model.gauges(self._tiers, now) for name, model in self._models.items()},
            len(self.gateway.waiters),
            len(self._tasks),
            self._dead_letters.added,
            caches=counts_of(self._desks.values()),
            evicted=self._memory.evicted,
            letters_dropped=self._dead_letters.dropped,
            restarts=self.loops.restarts,
            desks=desk_gauges(self._desks),
        )
