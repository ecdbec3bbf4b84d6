"""The clients of a simulation: they ask at gateways, wait, leave, cancel, and read the results of tasks."""

import asyncio
from contextlib import suppress
from random import Random

from penstock.errors import NotFound, PenstockError
from penstock.ports import Task
from penstock.runtime.waiters import Waiter
from penstock.types import Ask, Reply
from seeds.backends import POISON
from seeds.city import City, House
from seeds.draw import MODEL, TENANTS
from seeds.history import Asked

LIMITS = (None, None, 0.3, 1.0, 14.0, 14.0)  # seconds that clients give a request
USUAL = 4.0  # seconds that a request has if its client says nothing


class Client:
    """One client with one request. Implements `penstock.ports.Asker`."""

    def __init__(self, city: City, asked: Asked) -> None:
        self.city, self.asked = city, asked
        self.waiter: Waiter | None = None
        self.task: Task | None = None
        self.placing: asyncio.Task[None] | None = None

    def reply(self, reply: Reply) -> None:
        self.asked.replies.append((self.city.clock(), reply))

    def ask_at(self, house: House) -> None:
        """Called in the gateway's process."""
        asked, gateway = self.asked, house.member.gateway
        asked.sent = self.city.clock()
        asked.deadline = asked.sent + asked.limit
        ask = Ask(
            asked.input, MODEL, client_id=asked.tenant or None,
            timeout=None if asked.limit == USUAL else asked.limit,
        )  # fmt: skip
        if asked.how == "task":
            self.placing = house.process.spawn(self._place(house, ask))
            return
        try:
            if asked.how == "keyed":
                self.waiter = gateway.submit_keyed(ask, asked.key, self)
            else:
                self.waiter = gateway.submit(ask, self)
        except PenstockError as error:
            asked.refused = error.code
        else:
            asked.accepted = self.city.clock()

    async def _place(self, house: House, ask: Ask) -> None:
        try:
            self.task = await house.member.gateway.submit_task(ask)
        except PenstockError as error:
            self.asked.refused = error.code
        else:
            self.asked.accepted, self.asked.task_id = self.city.clock(), self.task.id

    def leave(self, house: House) -> None:
        """Called in the gateway's process. The client of a task that is accepted cancels it there."""
        if self.asked.how == "task":
            self._cancel(house)
        elif self.waiter is not None and not self.asked.replies:
            self.asked.left = self.city.clock()
            self.waiter.left()

    def _cancel(self, house: House) -> None:
        assert self.placing is not None
        self.asked.left = self.city.clock()
        if self.task is None:
            self.placing.cancel()
        else:
            house.process.spawn(self._withdraw(self.task))

    async def _withdraw(self, task: Task) -> None:
        with suppress(PenstockError):
            await task.cancel()

    async def read_at(self, house: House, seconds: float) -> None:
        """Read the task at any gateway, and wait for it there."""
        assert self.task is not None
        try:
            found = await house.member.gateway.find_task(self.task.id, self.asked.tenant or None)
            await found.wait(seconds)
        except NotFound:
            self.city.history.wrong.append(f"#{self.asked.number} is an accepted task that nobody knows")
        except PenstockError:
            return
        else:
            if found.answer is not None:
                self.asked.replies.append((self.city.clock(), found.answer))


class Crowd:
    """All clients of a run."""

    def __init__(self, city: City, rng: Random) -> None:
        self._city, self._rng = city, rng
        self.clients: list[Client] = []
        self.without = 0  # clients that found no gateway

    async def come(self) -> None:
        """Clients come one after the other."""
        drawn, rng = self._city.drawn, self._rng
        for _ in range(drawn.asks):
            await asyncio.sleep(rng.expovariate(drawn.asks / drawn.asking_seconds))
            self.one()

    def one(self, *, plain: bool = False) -> None:
        """One client asks at one of the gateways. `plain`: it only asks, and has time."""
        gateways = self._city.of("gateway")
        if not gateways:
            self.without += 1
            return
        house = self._rng.choice(gateways)
        client = Client(self._city, self._asked(house, plain=plain))
        self._city.history.asked.append(client.asked)
        self.clients.append(client)
        house.process.on_killed.append(lambda: self._break(client))
        house.process.soon(client.ask_at, house)
        if plain:
            return
        if self._rng.random() < self._city.drawn.leaves:
            self._later(self._rng.expovariate(3.0), house, client)
        if client.asked.how == "task" and self._rng.random() < 0.5:
            self._city.loop.call_later(self._rng.uniform(0.0, 4.0), self._read, client)

    def _asked(self, house: House, *, plain: bool) -> Asked:
        drawn, rng = self._city.drawn, self._rng
        number = len(self._city.history.asked) + 1
        tenant = rng.choice(TENANTS)
        limit = USUAL if plain else rng.choice(LIMITS) or USUAL
        how, key, kind = "sync", "", b'"fine'
        if not plain:
            dice = rng.random()
            how = "task" if dice < drawn.tasks else "keyed" if dice < drawn.tasks + drawn.keyed else "sync"
            if rng.random() < drawn.poison:
                kind, limit = rng.choice(POISON), min(limit, USUAL)
        name = number
        if how == "keyed":
            name = rng.randrange(6)
            key, kind = f"key{name}", b'"keyed'
        elif drawn.same and kind == b'"fine':
            name, kind = rng.randrange(8), b'"same'
        return Asked(number, how, house.name, tenant, kind + b'-%d"' % name, self._city.clock(), limit, key)

    def _later(self, seconds: float, house: House, client: Client) -> None:
        def leave() -> None:
            if house.process.alive and client.asked.deadline:
                house.process.soon(client.leave, house)

        self._city.loop.call_later(seconds, leave)

    def _read(self, client: Client) -> None:
        gateways = self._city.of("gateway")
        if gateways and client.task is not None and client.asked.left is None:
            house = self._rng.choice(gateways)
            house.process.spawn(client.read_at(house, self._rng.uniform(0.0, 3.0)))

    def _break(self, client: Client) -> None:
        asked = client.asked
        if asked.how == "task":
            asked.broken = client.task is None and not asked.refused
        elif not asked.replies and not asked.refused:
            asked.broken = True
