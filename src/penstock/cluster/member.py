"""What gateways, batchers and workers that meet at a Redis have in common."""

import asyncio
import logging
import os
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from typing import Any

import msgspec

from penstock.adapters.observe.pauses import LoopPauses
from penstock.adapters.redis.bus.mailbox import Mailbox, Post
from penstock.adapters.redis.bus.registry import Registry
from penstock.adapters.redis.bus.wire import Departed, Garbled, Message, decode
from penstock.adapters.redis.link.connect import RedisSettings, Store, check_durability, guard
from penstock.cluster.condition import condition_of
from penstock.config import Config, Model
from penstock.config.kinds import Choice, Number, Whole
from penstock.config.schema import Key, items
from penstock.config.time_limits import own_limits
from penstock.errors import StoreDown
from penstock.loops import Loops
from penstock.runtime.condition import UNHEALTHY
from penstock.server.listen import AdminListener, DataListener

log = logging.getLogger("penstock")

# What of a model the others must know. Not its target or headers: where it runs and with which secrets is the
# worker's business alone.
ANNOUNCED = (
    "max_batch", "max_wait", "policy", "input", "output", "cost", "max_cost", "group_lengths", "reserve", "version",
    "parameters", "deterministic", "cache", "cache_ttl", "default", "respond",
)  # fmt: skip
FIRST_WAIT, LONGEST_WAIT = 0.1, 1.0


def redis_settings(config: Config) -> RedisSettings:
    redis = config.redis
    return RedisSettings(
        url=redis.url,
        namespace=redis.namespace,
        shards=redis.shards,
        durability=redis.durability,
        replicas=redis.replicas,
        lease=redis.lease,
        heartbeat=redis.heartbeat,
    )


def announcement(config: Config, model: str) -> dict[str, object]:
    """Its time limits as far as this configuration sets any: gateways and batchers go by the same ones then."""
    own = config.models[model]
    said = {**asdict(own), "input": own.input_kind}  # which depends on the target
    return {name: said[name] for name in ANNOUNCED} | own_limits(config.timeouts, config.models, model)


def announced(said: Mapping[str, Any]) -> Model:
    """Of a newer worker we may hear what we do not know; of an older one we may miss something. Raises ValueError
    for values that no model can have."""
    known = {field.name for field in fields(Model)}
    values = {name: value for name, value in said.items() if name in known}
    model = msgspec.convert({**values, "target": "redis"}, Model)
    for name, item in items(Model).items():
        if isinstance(item, Key) and isinstance(item.kind, Choice | Number | Whole):
            value = getattr(model, name)
            if value is not None:
                item.kind.take(value)
    return model


def with_models(config: Config, models: Mapping[str, Mapping[str, Any]]) -> Config:
    return replace(config, models={name: announced(said) for name, said in models.items()})


def _never_used_again(given: str, role: str) -> str:
    """A name that no other process ever had: what was sent to a dead one must not reach the one after it."""
    return f"{given}-{secrets.token_hex(3)}" if given else f"{role}-{secrets.token_hex(5)}"


class Member:
    """One process among those that meet at a Redis: its mailbox, its place in the registry, its loops."""

    def __init__(self, kind: str, config: Config, loop: asyncio.AbstractEventLoop) -> None:
        self.config = config
        self.name = _never_used_again(config.redis.name, kind.removesuffix("s"))
        self.started: asyncio.Future[None] = loop.create_future()
        self.pauses = LoopPauses()
        self.store = Store(redis_settings(config))
        self.store.aside.me = self.name
        self.post = Post(self.store)
        self.mailbox = Mailbox(self.store, self.name)
        self.registry = Registry(self.store, kind, self.name, self.describe)
        self.loops = Loops()
        self._listeners: Sequence[DataListener | AdminListener] = ()
        self._retired = False

    # ---- to be filled in by each role ----------------------------------------------------------------------

    def describe(self) -> dict[str, object]:
        """For the registry: what the others need to know of it."""
        host = socket.gethostname()
        admin = next((each.url for each in self._listeners if isinstance(each, AdminListener)), "")
        for everywhere in ("//0.0.0.0:", "//[::]:"):
            admin = admin.replace(everywhere, f"//{host}:")
        return {
            "host": host,
            "pid": os.getpid(),
            "parent": os.getppid(),
            "admin": admin,
            "draining": self._retired,
        }

    async def begin(self) -> None:
        """The store is open: start what else there is, with `loops`."""

    def received(self, message: Message) -> None:
        """From the mailbox."""

    def why_not_ready(self) -> str:
        return ""

    # ---- life ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        self.loops.send("the start", self._start())

    async def _start(self) -> None:
        """A Redis that is not there yet is waited for: whichever is started first."""
        wait = FIRST_WAIT
        while True:
            try:
                await self.store.open()
                check_durability(self.store.settings, self.store.features)
                with guard():
                    await self.mailbox.create()
                    await self.registry.beat()
                break
            except StoreDown as error:
                log.warning("waiting for Redis", extra={"redis": self.store.where, "error": error.message})
                await asyncio.sleep(wait)
                wait = min(LONGEST_WAIT, 2 * wait)
            except Exception as error:
                self.started.set_exception(error)
                return
        self.loops.keep("the mailbox", partial(self.mailbox.run, self._message))
        self.loops.keep("the registry", self.registry.run)
        self.loops.keep("what is set aside", self.store.aside.run)
        try:
            await self.begin()
        except Exception as error:  # whatever it is, somebody waits for the start to end
            self.started.set_exception(error)
        if not self.started.done():
            self.started.set_result(None)

    def _message(self, payload: bytes) -> None:
        """One that cannot be read, or that nobody here knows what to do with, must not keep the others."""
        try:
            message = decode(payload)
            if isinstance(message, Departed):
                self.registry.departed(message.kind, message.name)
            else:
                self.received(message)
        except Garbled as error:
            self.store.aside.add("message", self.mailbox.owner, str(error), payload)
        except Exception as error:
            if not self.store.aside.counts["message"]:  # where it happened is said once
                log.error("a message could not be handled", exc_info=error)
            self.store.aside.add("message", self.mailbox.owner, f"{type(error).__name__}: {error}", payload)

    def retire(self) -> None:
        self._retired = True

    async def leave(self) -> None:
        """Nobody need wait for our silence."""
        try:
            async with asyncio.timeout(1.0):
                await self.registry.leave()
                await self.mailbox.remove()
        except Exception as error:
            log.debug("left without a word", extra={"error": str(error)})

    async def stop(self) -> None:
        await self.loops.close()
        await self.leave()
        await self.store.close()

    # ---- for the admin plane -------------------------------------------------------------------------------

    def watch(self, *listeners: DataListener | AdminListener) -> None:
        self._listeners = listeners

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
        """How the installation stands, as far as it can be told from here."""
        well = self.started.done() and self.registry.reachable and not self.dead_loops()
        return {"status": condition_of(self.registry) if well else UNHEALTHY, "draining": self._retired}

    def alive(self, kind: str) -> Callable[[], set[str]]:
        return lambda: set(self.registry.members[kind])
