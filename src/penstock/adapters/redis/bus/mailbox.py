"""Messages between processes: each process has a mailbox, a stream in Redis. Every member reads its own, and sends
to those of others; `bus.py` makes both ends. The files of `records` that tell of ended tasks send by the `Post`
too.

Reading removes nothing, so a broken connection loses no message; the owner trims what it has handled. A mailbox
outlives outages of Redis, because its lifetime is far longer than a lease. Whether its owner lives, the registry
says. A message is delivered at least once: a sender that got no answer sends it again.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic

from redis.exceptions import RedisError

from penstock.adapters.redis.bus.scripts import BOX_CREATE
from penstock.adapters.redis.link.connect import Client, Patience, Store, guard, translate
from penstock.adapters.redis.link.misfits import BOX_LIFETIME_MS
from penstock.loops import Loops
from penstock.patience import FIRST_WAIT, LONGEST_WAIT

_GATHER = 0.001  # seconds from one read to the next: under load each brings several messages
_READ_AT_ONCE = 1000  # messages
_MESSAGE = b"m"  # the field of a stream entry that holds the message
_GIVE_UP_AFTER = 30.0  # seconds


class Mailbox:
    """Implements `ports.bus.Mailbox`: the owner's end."""

    def __init__(self, store: Store, owner: str) -> None:
        self.owner = owner
        self._store = store
        self._key = store.keys.box(owner)
        self._reader: Client | None = None  # None until the mailbox is first read
        self._last = b"0"  # id of the last entry handled
        self._trimmed = self._last  # id up to which the mailbox was trimmed

    async def create(self) -> None:
        """Make the mailbox, so that messages can be sent to the owner. If it is there, it is kept. Raises
        StoreDown."""
        with guard():
            await self._create()

    async def _create(self) -> None:
        hello = await BOX_CREATE(self._store.commands, [self._key], [BOX_LIFETIME_MS])
        if hello:  # the box is new and empty, so its ids begin anew too
            self._last = self._trimmed = hello

    async def touch(self) -> None:
        """Lengthen the mailbox's life, make it anew if Redis has lost it, and trim it."""
        await self._create()
        last = self._last
        if last != self._trimmed:
            await self._store.commands.execute_command("XTRIM", self._key, "MINID", "=", _after(last))
            self._trimmed = last

    async def run(self, on_message: Callable[[bytes], None]) -> None:
        """Hand over what arrives and keep the mailbox alive, until cancelled."""
        async with Loops() as loops:
            loops.keep("reading", partial(self._read, on_message))
            loops.keep("keeping the box", self._keep)

    async def remove(self) -> None:
        """Remove the mailbox, because its owner goes. From now on `Post.send` returns False for it."""
        await self._store.commands.execute_command("DEL", self._key)

    async def _read(self, on_message: Callable[[bytes], None]) -> None:
        client = self._reader = self._reader or self._store.blocking()
        block = int(self._store.settings.block * 1000)
        patience = Patience(f"The reader of the mailbox of {self.owner}")
        while True:
            try:
                # If Redis restarted empty, the mailbox must exist before anybody writes to it.
                if patience.away:
                    await self.touch()
                where = await self._store.at(client, self._key)
                answer = await client.execute_command(
                    "XREAD", "COUNT", _READ_AT_ONCE, "BLOCK", block, "STREAMS", self._key, self._last, **where
                )
                patience.succeeded()
                self._store.link.heard()
            except (RedisError, OSError, RuntimeError) as error:
                await asyncio.sleep(patience.failed(error))
                continue
            for _, entries in answer or ():
                for entry, fields in entries:
                    self._last = entry
                    if fields and _MESSAGE in fields:
                        on_message(fields[_MESSAGE])
            if answer:
                await asyncio.sleep(_GATHER)

    async def _keep(self) -> None:
        patience = Patience(f"The keeper of the mailbox of {self.owner}")
        while True:
            try:
                await self.touch()
                patience.succeeded()
            except (RedisError, OSError, RuntimeError) as error:
                await asyncio.sleep(patience.failed(error))
                continue
            await asyncio.sleep(self._store.settings.heartbeat)


class Post:
    """Implements `ports.bus.Post`: the senders' end of all mailboxes. While Redis is away it tries again, so a
    message may arrive twice."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._patience = Patience("The post")  # one for all messages, so that the log tells of an outage once

    @property
    def apart(self) -> bool:
        return self._store.clustered or self._store.link.is_long

    async def send(self, box: str, payload: bytes, *, give_up_after: float = _GIVE_UP_AFTER) -> bool:
        """Send a message. Returns False if the owner of the mailbox has gone. Raises StoreDown when Redis stays
        away."""
        [sent] = await self.send_all([(box, payload)], give_up_after=give_up_after)
        return sent

    async def send_all(
        self, messages: Sequence[tuple[str, bytes]], *, give_up_after: float = _GIVE_UP_AFTER
    ) -> list[bool]:
        """Send messages, and return for each whether it was sent. Messages to one node go together."""
        sent: dict[int, bool] = {}
        wait, gives_up = FIRST_WAIT, monotonic() + give_up_after
        while len(sent) < len(messages):
            waiting = [index for index in range(len(messages)) if index not in sent]
            error = await self._try(messages, waiting, sent)
            if error is None:
                self._patience.succeeded()
                continue
            self._patience.failed(error)
            if monotonic() + wait > gives_up:
                raise translate(error) from error
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)
        return [sent[index] for index in range(len(messages))]

    async def _try(
        self, messages: Sequence[tuple[str, bytes]], waiting: Sequence[int], sent: dict[int, bool]
    ) -> Exception | None:
        """Send the waiting messages, and note in `sent` those that Redis answered. Returns an error if there was
        one."""
        commands = [
            (
                "XADD",
                self._store.keys.box(messages[index][0]),
                "NOMKSTREAM",
                "*",
                _MESSAGE,
                messages[index][1],
            )
            for index in waiting
        ]
        failed = None
        for index, answer in zip(waiting, await self._store.each(commands), strict=True):
            if isinstance(answer, Exception):
                failed = answer
            else:
                sent[index] = answer is not None
        return failed


def _after(entry: bytes) -> str:
    """Returns the smallest id above that of this entry."""
    milliseconds, _, sequence = entry.decode().partition("-")
    return f"{milliseconds}-{int(sequence or 0) + 1}"
