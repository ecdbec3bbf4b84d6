"""A gateway's publisher over Redis: it sends requests and withdrawals to the shards, which batchers read, many in
one envelope. Each gateway runs a `Publisher` (`cluster/gateway.py`), which `shards.py` makes; `adapters/outbox.py`
holds what is not sent yet.

    publish ──► unsent ──(at once when idle, else once a millisecond)──► one envelope, to the next shard in turn
                  │ withdrawn: never sent                                   │ not acknowledged: again, 100 ms in all
                  └ too many: refused                                       └ then to another node, or failed

One send is under way at a time, so the slower Redis is, the fuller the envelopes. A send that failed may have
reached Redis. It is repeated with the same bytes, and a batcher ignores keys that it has. Only where an
acknowledgement waits for a disk or a replica do other sends go out meanwhile; the more are under way, the longer
the pause before the next.

A connection that breaks proves nothing about Redis, nor does an answer that does not come in time while Redis is
heard otherwise: on a long line packets are lost. A second try that fails proves that it is away, and so does
silence (`link/listening.py`). Its shards (all of a single server, those of one node of a cluster) are then left out
until an empty envelope gets through. With no shard left the publisher is `down`. Requests that were on their way
then fail, and that first envelope withdraws them: if Redis had them after all, a batcher may execute them, but
nobody waits for the answers.
"""

import asyncio
import logging
from collections.abc import Collection, Sequence
from functools import partial

from redis.asyncio.cluster import RedisCluster
from redis.exceptions import RedisError, ResponseError
from redis.exceptions import TimeoutError as NoAnswer

from penstock.adapters.outbox import Outbox, store_down
from penstock.adapters.redis.bus.durability import Appender
from penstock.adapters.redis.link.connect import Patience, Store, is_outage
from penstock.adapters.redis.link.listening import SilenceWatch
from penstock.errors import Internal, StoreDown
from penstock.loops import Loops
from penstock.ports import Clock
from penstock.types import Accepted
from penstock.words.envelopes import encode_envelope

log = logging.getLogger("penstock.gateway")

SLOW = "Redis is slower than what arrives: limits.max_queue or limits.max_queue_bytes wait to be sent"
PACE = 0.001  # seconds between two sends
# Seconds for which an unacknowledged envelope is tried again, so that its clients are refused within 100 ms.
LONGEST_RETRY = 0.07
RETRY_PAUSE = 0.02  # seconds
# So many sends may wait for a disk or a replica: with the pauses between them, for more than a second.
UNDER_WAY = 32
# Requests of one envelope; more are cut into several envelopes that are sent together.
ENVELOPE_REQUESTS = 1024
ENVELOPE_BYTES = 1 << 20  # of inputs in one envelope, or one larger input


class Publisher(Outbox):
    """Implements `ports.shards.Publisher`."""

    full = SLOW

    def __init__(
        self, store: Store, box: str, clock: Clock, *, max_requests: int = 65_536, max_bytes: int = 256 << 20
    ) -> None:
        """`box`: the mailbox that answers are sent to."""
        super().__init__(max_requests, max_bytes)
        self._store = store
        self._box = box
        self._clock = clock
        self._appender: Appender
        self._shards = store.settings.shards
        self._latest = -1  # the shard of the last envelope
        self._away: set[int] = set()  # the shards that are left out, because their node is away
        self._preferred: Collection[int] = range(self._shards)  # the shards that requests should go to
        self._open: Collection[int] = range(self._shards)  # the shards that requests go to now
        self._trouble = asyncio.Event()  # set when a shard was left out
        self._listener = SilenceWatch(store)

    @property
    def down(self) -> bool:
        """Whether nothing can be accepted now."""
        return len(self._away) == self._shards

    def prefer(self, shards: Collection[int]) -> None:
        self._preferred = frozenset(shards)
        self._choose()

    def _choose(self) -> None:
        """Work out to which shards requests go: to the preferred ones that can be reached, or else to any."""
        away = self._away
        reached = [shard for shard in range(self._shards) if shard not in away]
        self._open = frozenset(self._preferred).intersection(reached) or frozenset(reached)
        self._wake.set()

    # ---- the loop ----------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Send what is published until cancelled. The store must be open."""
        self._appender = Appender(self._store)
        self._trouble.set()  # an earlier run that failed may have left lost shards
        try:
            async with Loops() as loops:
                loops.keep("sending", partial(self._send_all, loops))
                loops.keep("looking for lost shards", self._look_for_the_lost)
                loops.keep("listening", self._listener.run)
        finally:
            for acceptance in self._acceptances.values():
                if not acceptance.done():
                    acceptance.set_exception(store_down())

    async def _send_all(self, loops: Loops) -> None:
        under_way: set[asyncio.Task[None]] = set()
        self._wake.set()
        while True:
            await self._wake.wait()
            started = self._clock()
            shard = self._next_shard()
            if shard is None:
                self._wake.clear()
                if not under_way:
                    self._quiet.set()
                continue
            send = self._send(shard, *self._seal(shard))
            if self._appender.waits:
                task = loops.send("sending an envelope", send)
                under_way.add(task)
                task.add_done_callback(under_way.discard)
                task.add_done_callback(lambda _: self._wake.set())
                if len(under_way) == UNDER_WAY:
                    await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            else:
                await send
            rest = PACE * (1 + 2 * len(under_way)) - (self._clock() - started)
            if rest > 0:
                await asyncio.sleep(rest)

    def _next_shard(self) -> int | None:
        """Returns the shard of the next envelope; None when there is nothing to send, or no shard to send it to."""
        for step in range(1, self._shards + 1):
            shard = (self._latest + step) % self._shards
            takes = self._unsent and shard in self._open
            if takes or (shard not in self._away and self._withdrawn.get(shard)):
                self._latest = shard
                return shard
        return None

    def _seal(self, shard: int) -> tuple[list[Accepted], list[bytes]]:
        """Returns the requests that go to this shard now, and the envelopes that hold them."""
        room = self._unsent_bytes <= ENVELOPE_BYTES and len(self._unsent) <= ENVELOPE_REQUESTS
        requests = self._take_unsent() if shard in self._open else []
        for request in requests:
            request.shard = shard
        withdrawn = self._withdrawn.pop(shard, [])
        now = self._clock()
        # Withdrawals go into the last envelope: after a failure, a request and its withdrawal may go together.
        parts = [requests] if room else _cut(requests)
        try:
            bodies = [encode_envelope(self._box, part, [], now) for part in parts[:-1]]
            bodies.append(encode_envelope(self._box, parts[-1], withdrawn, now))
        except Exception as error:  # a mistake of ours: these requests fail, and those behind them go on
            self._fail(
                requests, Internal("this gateway could not write the request down", details=_said(error))
            )
            return [], [encode_envelope(self._box, [], withdrawn, now)]
        return requests, bodies

    async def _send(self, shard: int, requests: Sequence[Accepted], bodies: Sequence[bytes]) -> None:
        key = self._store.keys.shard(shard)
        ends = self._clock() + LONGEST_RETRY
        tries = 0
        while True:
            try:
                await self._listener.heard(
                    self._appender.append(key, bodies), at_once=not self._appender.waits
                )
            except asyncio.CancelledError:
                self._put_back(requests)  # this loop may be started again
                raise
            except Exception as error:
                if not isinstance(error, StoreDown) and not is_outage(error):
                    if not tries and isinstance(error, ResponseError) and await self._mended(error, key):
                        tries += 1
                        continue
                    self._fail(requests, store_down(_said(error)))
                    return
                tries += 1
                if tries == 1 and isinstance(error, NoAnswer) and self._listener.hears_redis():
                    ends = self._clock() + LONGEST_RETRY  # so there is a second try
                if tries > 1 or isinstance(error, StoreDown):
                    self._lose(shard)
                if self._clock() >= ends:
                    self._give_up(shard, requests, error)
                    return
                await asyncio.sleep(RETRY_PAUSE if tries > 1 else 0)
            else:
                if self._away:
                    self._regain(shard)
                self._accept(requests)
                return

    async def _mended(self, error: ResponseError, key: str) -> bool:
        """Put a key of the wrong type out of the way. Returns whether the command should be sent again. Needed only
        for commands that wait for a disk or a replica: the client itself sends all others again."""
        try:
            return await self._store.misfits.mend(self._store.commands.execute_command, error, ("XADD", key))
        except (RedisError, OSError):
            return False

    # ---- when Redis is away ------------------------------------------------------------------------------

    def _give_up(self, shard: int, requests: Sequence[Accepted], error: Exception) -> None:
        self._lose(shard)
        if not self.down:  # another node takes them: to execute a request twice is better than not at all
            self._put_back(requests)
            return
        # The envelope may have arrived after all.
        self._withdrawn[shard] += [request.key for request in requests]
        lost = [*requests, *self._take_unsent()]  # the requests behind it have nowhere to go either
        self._fail(lost, store_down(str(error)))

    def _lose(self, shard: int) -> None:
        self._away |= self._neighbours(shard)
        self._choose()
        self._trouble.set()

    def _regain(self, shard: int) -> None:
        self._away -= self._neighbours(shard)
        self._choose()

    def _neighbours(self, shard: int) -> set[int]:
        """Returns the shards that are on the same server as this one, as far as we know."""
        client, keys = self._store.commands, self._store.keys
        if not isinstance(client, RedisCluster):
            return set(range(self._shards))
        slots = client.nodes_manager.slots_cache
        nodes = [slots.get(client.keyslot(keys.shard(k)), [None])[0] for k in range(self._shards)]
        return {k for k, node in enumerate(nodes) if node is nodes[shard]} | {shard}

    async def _look_for_the_lost(self) -> None:
        patience = Patience("The publisher")
        while True:
            await self._trouble.wait()
            self._trouble.clear()
            while self._away:
                shard = min(self._away)
                withdrawn = self._withdrawn.pop(shard, [])
                try:
                    body = encode_envelope(self._box, [], withdrawn, self._clock())
                    await self._appender.append(self._store.keys.shard(shard), [body])
                    await self.on_back()
                except Exception as error:
                    self._withdrawn[shard][:0] = withdrawn
                    await asyncio.sleep(patience.failed(error))
                else:
                    patience.succeeded()
                    self._regain(shard)


def _said(error: Exception) -> str:
    """Tells the log that requests were not sent. Returns the reason, for their failure."""
    words = f"{type(error).__name__}: {error}"[:200]
    log.error("requests were not sent", extra={"error": words})
    return words


def _cut(requests: Sequence[Accepted]) -> list[list[Accepted]]:
    """Cut requests into envelopes of bounded size."""
    parts: list[list[Accepted]] = [[]]
    size = 0
    for request in requests:
        if parts[-1] and (len(parts[-1]) >= ENVELOPE_REQUESTS or size + len(request.input) > ENVELOPE_BYTES):
            parts.append([])
            size = 0
        parts[-1].append(request)
        size += len(request.input)
    return parts
