"""Webhooks: tells an address how a task has ended, again and again until it is taken. The data plane promises it
for each task whose asker has named an address; `roles/webhooks.py` makes one `Webhooks` for a process with clients.

    promised ──the task is over──► due ──2xx──► delivered
                                    │ any other answer, or none: later, after longer and longer
                                    └──410, or too often──► given up

Each message is signed as standardwebhooks.com says, so that libraries can check it. A `Courier` sends it. What is
promised is kept in this process alone: if it dies, nobody is called, and the result is there to be fetched.
"""

import asyncio
import binascii
import hmac
import logging
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from urllib.parse import urlsplit

from penstock.core.backoff import backoff
from penstock.errors import Forbidden, NotFound, Overloaded, OverQuota, PenstockError, UserMistake
from penstock.loops import Loops
from penstock.ports import Task
from penstock.ports.webhooks import Courier, Tell, Undelivered
from penstock.runtime.webhook_turns import Turns

LONGEST_URL = 2048  # characters
AT_ONCE = 32  # messages under way
AT_ONCE_TO_ONE = 4  # of these, to one origin
AT_ONCE_OF_ONE = AT_ONCE // 4  # of these, of one tenant
WAIT = 30.0  # seconds of one wait for a task to be over
PAUSE = 1.0  # seconds until a task is looked for again while the store is away
MOST_BYTES = 64 * 2**20  # of messages that wait to be taken; beyond it they are told without their output
LAST_WORDS = 2.0  # seconds, when the process ends, for messages under way and those that were not tried yet
GONE = 410
SECRET = "whsec_"  # begins a secret that is written in base64

log = logging.getLogger("penstock.webhooks")


class Webhooks:
    """Implements `ports.webhooks.Webhooks`, and `ports.process.Companion`."""

    def __init__(
        self,
        courier: Courier,
        origins: Collection[str],
        secret: str,
        wall_clock: Callable[[], float],
        *,
        attempts: int,
        base: float,
        longest: float,
        most: int,
        share: float,
    ) -> None:
        """`origins`: what may be called; "*": anything. `base`, `longest`: seconds before the second attempt, and
        before any. `most`: what may be promised at once; `share`: the part of it that one tenant may have."""
        self._courier = courier
        self._origins = frozenset(origins)
        self._key = key_of(secret)
        self._wall_clock = wall_clock
        self._attempts, self._base, self._longest = attempts, base, longest
        # How many webhooks may be promised at once: to all tenants together, and to each.
        self._most, self._each = most, max(1, int(most * share))
        self._promised: Counter[str] = Counter()  # by tenant
        self._bytes = 0
        self._turns = Turns(AT_ONCE, AT_ONCE_TO_ONE, AT_ONCE_OF_ONE)
        self._under_way: set[asyncio.Task[None]] = set()
        # Of these: those whose task may not be over, those that are due and untried, those on the wire.
        self._early: dict[asyncio.Task[None], Task] = {}
        self._untried: set[asyncio.Task[None]] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._closing = False
        self._untaken = 0  # since then

    # ---- what is promised --------------------------------------------------------------------------------

    def check(self, url: str, tenant: str) -> None:
        origin, host = _origin(url)
        if origin not in self._origins and "*" not in self._origins:
            raise Forbidden(f"'callback_url': {origin} is not in webhooks.allow")
        why_not = self._courier.why_not(host)
        if why_not:
            raise Forbidden(f"'callback_url': {why_not}")
        if self._promised.total() >= self._most:
            raise Overloaded(
                f"{self._most} webhooks wait already (webhooks.max_pending)", retry_after=self._base
            )
        if self._promised[tenant] >= self._each:
            raise OverQuota(
                f"{self._each} webhooks of this tenant wait already (webhooks.max_pending, limits.tenant_share)",
                retry_after=self._base,
            )

    def promise(self, url: str, task: Task, tenant: str, tell: Tell) -> None:
        self._promised[tenant] += 1
        keeping = asyncio.get_running_loop().create_task(self._keep(url, task, tenant, tell))
        self._under_way.add(keeping)
        self._early[keeping] = task

        def kept(done: "asyncio.Task[None]") -> None:
            self._under_way.discard(done)
            self._early.pop(done, None)
            self._untried.discard(done)
            self._promised[tenant] -= 1
            if not self._promised[tenant]:
                del self._promised[tenant]
            if not done.cancelled() and (error := done.exception()) is not None:
                log.error("a webhook failed inside the server", exc_info=error)

        keeping.add_done_callback(kept)

    # ---- one webhook -------------------------------------------------------------------------------------

    async def _keep(self, url: str, task: Task, tenant: str, tell: Tell) -> None:
        me = asyncio.current_task()
        assert me is not None
        is_over = await _is_over(task)
        self._early.pop(me, None)
        if not is_over:
            return
        self._untried.add(me)
        name, body = task.id, tell(task, True)
        if self._bytes + len(body) > MOST_BYTES:
            body = tell(task, False)
        del task, tell  # the task may be forgotten while this waits
        self._bytes += len(body)
        try:
            await self._deliver(url, name, tenant, body)
        finally:
            self._bytes -= len(body)

    async def _deliver(self, url: str, name: str, tenant: str, body: bytes) -> None:
        origin, _ = _origin(url)
        why = ""
        for attempt in range(1, self._attempts + 1):
            status, why, pause = await self._attempt(origin, url, name, tenant, body)
            if 200 <= status < 300:
                return
            if status == GONE:
                break
            if self._closing:
                self._untaken += 1
                return
            if attempt < self._attempts:
                wait = backoff(attempt, self._base, self._longest, hash(name) % 1000)
                await asyncio.sleep(max(wait, min(pause, self._longest)))
        log.warning("a webhook was given up", extra={"task": name, "to": self._shown(origin), "error": why})

    async def _attempt(
        self, origin: str, url: str, name: str, tenant: str, body: bytes
    ) -> tuple[int, str, float]:
        """Returns the status that was answered, 0 for none; what is wrong, in words; and the seconds that the other
        side wants to be left alone."""
        me = asyncio.current_task()
        assert me is not None
        try:
            async with self._turns.turn(tenant, origin):
                self._sending.add(me)
                fields = signed(self._key, name, int(self._wall_clock()), body)
                posted = await self._courier.post(url, fields, body)
        except Undelivered as error:
            return 0, error.message, 0.0
        finally:
            self._sending.discard(me)
            self._untried.discard(me)
        return posted.status, f"it answered {posted.status}", posted.retry_after or 0.0

    def _shown(self, origin: str) -> str:
        """An origin as the log may have it: one that the operator has listed, and none that clients made up."""
        return origin if origin in self._origins else ""

    # ---- life --------------------------------------------------------------------------------------------

    async def open(self, loops: Loops) -> None:
        """Does nothing: what is promised begins by itself."""

    async def close(self) -> None:
        """Try once what is due and was not tried, as far as that goes in a moment, and give up the rest."""
        self._closing = True
        awaited = self._awaited() | self._early.keys()
        left = [task for task in self._under_way if task not in awaited]
        await _given_up(left)
        try:
            async with asyncio.timeout(LAST_WORDS):
                while waiting := self._awaited():
                    await asyncio.wait(waiting)
        except TimeoutError:
            pass
        more = list(self._under_way)
        await _given_up(more)
        if count := len(left) + len(more) + self._untaken:
            log.warning("webhooks were not delivered before the end", extra={"webhooks": count})
        await self._courier.close()

    def _awaited(self) -> "set[asyncio.Task[None]]":
        """Those that the end waits for."""
        due = {keeping for keeping, task in self._early.items() if task.answer is not None}
        return self._sending | self._untried | due


async def _given_up(tasks: "list[asyncio.Task[None]]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _is_over(task: Task) -> bool:
    """Wait until a task is over. Returns False if it is not to be found any more."""
    while task.answer is None:
        try:
            await task.wait(WAIT)
        except NotFound:
            log.warning("the task of a webhook is gone", extra={"task": task.id})
            return False
        except PenstockError:  # the store is away
            await asyncio.sleep(PAUSE)
    return True


def _origin(url: str) -> tuple[str, str]:
    """Returns the scheme, host and port of an address as `webhooks.allow` lists them, and the host alone. Raises
    Forbidden if it is no address that can be called."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), (parts.hostname or "").lower(), parts.port
    except ValueError:
        scheme = host = ""
        port = None
    if scheme not in ("http", "https") or not host or "@" in url.partition("//")[2].partition("/")[0]:
        raise Forbidden("'callback_url' must begin with https:// or http://, and hold no user")
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise Forbidden(f"'callback_url' must be up to {LONGEST_URL} visible ASCII characters")
    usual = {"http": 80, "https": 443}[scheme]
    shown = f"[{host}]" if ":" in host else host
    return f"{scheme}://{shown}" + (f":{port}" if port not in (None, usual) else ""), host


def key_of(secret: str) -> bytes:
    """Returns the key that a secret means. Raises UserMistake."""
    if not secret.startswith(SECRET):
        return secret.encode()
    try:
        return b64decode(secret.removeprefix(SECRET), validate=True)
    except binascii.Error:
        raise UserMistake(f"webhooks.secret begins with {SECRET}, and the rest of it is not base64") from None


def signed(key: bytes, name: str, now: int, body: bytes) -> Mapping[str, str]:
    """Returns the header fields of a message. `name`: the same in all attempts."""
    digest = hmac.new(key, b"%b.%d.%b" % (name.encode(), now, body), "sha256").digest()
    return {
        "content-type": "application/json",
        "user-agent": "penstock",
        "webhook-id": name,
        "webhook-timestamp": str(now),
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }
