"""What gateways, batchers, workers and autoscalers over a bus have in common: heartbeats, a mailbox that is read,
loops that are run and ended, and answers for the admin plane. Each of the four has a class that derives from
`Member`. `roles/process.py` starts and stops it, and the admin plane asks it how it stands."""

import asyncio
import logging
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec import UNSET
from msgspec.structs import asdict

from penstock.cluster.condition import all_worker_rows, condition_of, health_of
from penstock.cluster.lookout import Lookout
from penstock.cluster.staying import staying
from penstock.config import Config
from penstock.errors import StoreDown
from penstock.gauges import ServerGauges, StoreGauges
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.ports.bus import Bus
from penstock.ports.process import Listener
from penstock.runtime.condition import UNHEALTHY, WorkerRow
from penstock.said_once import SaidOnce
from penstock.words.basics import Garbled
from penstock.words.heartbeats import KINDS, Heartbeat, Kind
from penstock.words.messages import Departed, Look, Message, Seen, decode

log = logging.getLogger("penstock")

FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0  # seconds between two tries to reach the bus at the start


def _never_used_again(given: str, role: str) -> str:
    """A name that no other process ever had: a message to a dead process must not reach a later one of the same
    name."""
    return f"{given}-{secrets.token_hex(3)}" if given else f"{role}-{secrets.token_hex(5)}"


class Member(ABC):
    """One process among those that meet at a bus: its mailbox, its place in the registry, its loops."""

    def __init__(
        self, kind: Kind, config: Config, bus: Bus, loop: asyncio.AbstractEventLoop, clock: Clock
    ) -> None:
        self.config = config
        self.bus = bus
        self.role = kind.removesuffix("s")
        self.zone = config.server.zone
        self.name = _never_used_again(config.redis.name, self.role)
        # Done once the process has begun, or failed with what keeps it from beginning.
        self.started: asyncio.Future[None] = loop.create_future()
        self.mailbox = bus.mailbox(self.name)
        self.registry = bus.registry(kind, self.name, self._heartbeat)
        self.loops = Loops(clock)
        self.lookout = Lookout(self.name, bus.post, self.registry)
        self._listeners: Sequence[Listener] = ()
        self._admin_url = ""
        self._retired = False  # whether the process is ending, so that it is not ready for more
        self._mistakes = SaidOnce(log, "a message could not be handled")

    # ---- to be filled in by each role ----------------------------------------------------------------------

    @abstractmethod
    def describe(self) -> Heartbeat:
        """The heartbeat of this process for the registry, without where it runs, which `_heartbeat` adds."""

    @abstractmethod
    async def begin(self) -> None:
        """Start the loops of this kind of member. The bus is open."""

    def received(self, message: Message) -> None:  # noqa: B027 - an autoscaler is sent none
        """Take in a message from the mailbox."""

    def why_not_ready(self) -> str:
        """Why this kind of member is not ready, in words; empty if it is."""
        return ""

    def workers(self) -> Sequence[WorkerRow]:
        """The workers that are known, for the admin plane."""
        return all_worker_rows(self.registry)

    async def request(self, request_id: str, tenant: str) -> Mapping[str, Any] | None:
        """What became of a request. Only a gateway knows."""
        return None

    async def slowest(self, most: int, model: str) -> Sequence[Mapping[str, Any]]:
        """The slowest requests of the last minutes. Only gateways know them."""
        return []

    @abstractmethod
    def gauges(self) -> ServerGauges:
        """The numbers that say how this process stands, for the metrics page."""

    @property
    @abstractmethod
    def unfinished(self) -> int:
        """How many requests this process still has to finish."""

    @abstractmethod
    async def drain(self, seconds: float) -> bool:
        """Take nothing new, and finish what was taken. Returns True if all of it was finished in time."""

    def abandon(self) -> None:  # noqa: B027 - most have nothing to tell
        """Tell those who still wait that time is up, since `drain` did not finish everything. Only a gateway does:
        what a batcher or worker leaves is finished by others."""

    def follow(self, before: Config, now: Config) -> None:
        """Go by another configuration from now on, as far as this kind of member can."""
        self.config = now

    # ---- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.loops.send("the start", self._start())

    async def _start(self) -> None:
        """Open the bus and begin. If the bus is not there yet, wait for it, so that processes can be started in any
        order."""
        wait = FIRST_WAIT
        while True:
            try:
                await self.bus.open()
                await self.mailbox.create()
                await self.registry.beat()
                break
            except StoreDown as error:
                log.warning("waiting for Redis", extra={"redis": self.bus.where, "error": error.message})
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, 2 * wait)
            except Exception as error:
                self.started.set_exception(error)
                return
        self.loops.keep("the mailbox", partial(self.mailbox.run, self._message))
        self.loops.keep("the registry", self.registry.run)
        self.loops.keep("what is set aside", self.bus.aside.run)
        try:
            await self.begin()
        except Exception as error:  # whatever went wrong, somebody waits for the start to end
            self.started.set_exception(error)
        if not self.started.done():
            self.started.set_result(None)

    def _message(self, payload: bytes) -> None:
        """Take in one message. A message that cannot be read or used is set aside, so that it does not hold up the
        others."""
        try:
            message = decode(payload)
            if isinstance(message, Departed):
                self.registry.departed(message.kind, message.name)
            elif isinstance(message, Look):
                self.lookout.asked(message)
            elif isinstance(message, Seen):
                self.lookout.told(message)
            else:
                self.received(message)
        except Garbled as error:
            self.bus.aside.add("message", self.mailbox.owner, str(error), payload)
        except Exception as error:
            self._mistakes.say(error)
            self.bus.aside.add("message", self.mailbox.owner, f"{type(error).__name__}: {error}", payload)

    def _heartbeat(self) -> Heartbeat:
        host, admin = socket.gethostname(), self._admin_url
        for everywhere in ("//0.0.0.0:", "//[::]:"):
            admin = admin.replace(everywhere, f"//{host}:")
        said = self.describe()
        said.host, said.pid, said.parent = host, os.getpid(), os.getppid()
        said.admin, said.draining, said.tells = admin, self._retired, True
        said.zone = self.zone or UNSET
        return said

    def retire(self) -> None:
        """Say from now on that this process is not ready, since it is about to end."""
        self._retired = True

    async def say_goodbye(self) -> None:
        """Send a last heartbeat now, which says that this process leaves. If it is lost, the next one says so."""
        try:
            await self.registry.beat()
        except Exception as error:
            log.warning("could not say good-bye", extra={"error": str(error)})

    async def leave(self) -> None:
        """Leave the registry, so that others know at once that this process has gone."""
        try:
            async with asyncio.timeout(1.0):
                await self.registry.leave()
                await self.mailbox.remove()
        except Exception as error:
            log.debug("left without a word", extra={"error": str(error)})

    async def stop(self) -> None:
        await self.loops.close()
        await self.leave()
        await self.bus.close()

    # ---- for the admin plane -------------------------------------------------------------------------------

    def watch(self, admin_url: str, listeners: Sequence[Listener]) -> None:
        """Note the listeners, whose end makes this process dead, and the address of the admin plane."""
        self._listeners, self._admin_url = listeners, admin_url

    def dead_loops(self) -> Sequence[str]:
        return self.loops.dead() + [
            f"the listener at {each.url} has ended" for each in self._listeners if each.dead
        ]

    def not_ready(self) -> str:
        if self._retired:
            return "draining"
        if not self.started.done():
            return "starting"
        if not self.registry.reachable:
            return "Redis does not answer"
        return self.why_not_ready()

    def condition(self) -> dict[str, object]:
        """How the installation stands, as far as this process knows."""
        well = self.started.done() and self.registry.reachable and not self.dead_loops()
        return {"status": condition_of(self.registry) if well else UNHEALTHY, "draining": self._retired}

    def health(self) -> dict[str, Any]:
        zone = {"zone": self.zone} if self.zone else {}
        mine = {"role": self.role, "name": self.name, **zone}
        return {**mine, **self.condition(), **asdict(health_of(self.registry))}

    def store_gauges(self) -> StoreGauges:
        registry = self.registry
        return StoreGauges(
            up=registry.reachable,
            memory=registry.memory_ratio,
            memory_limit=self.config.redis.memory_limit,
            processes={kind.removesuffix("s"): len(registry.members[kind]) for kind in KINDS},
            lost_workers=len(registry.lost_workers),
        )

    def alive(self, kind: Kind) -> Callable[[], set[str]]:
        """Returns a function that names the members of this kind that are there, those that drain included."""
        return lambda: set(self.registry.members[kind])

    def staying(self, kind: Kind) -> Callable[[], set[str]]:
        """Returns a function that names the members of this kind that are there and do not drain."""
        return lambda: staying(self.registry, kind)
