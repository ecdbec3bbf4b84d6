"""Writes down how tasks end, and tells the gateways where somebody waits for them. A worker calls it with the
outputs of a batch (`cluster/worker_post.py`), a batcher with what it refused or gave up (`cluster/dispatch.py`).
`records.py` makes the `RedisEndings`; `tasks.py` and `idempotency.py` use `tell`."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from penstock.adapters.redis.bus.mailbox import Post
from penstock.adapters.redis.link.connect import Patience, Store, is_outage
from penstock.adapters.redis.link.scripts import Call
from penstock.adapters.redis.records.task_scripts import PROCESS, SETTLE
from penstock.errors import StoreDown
from penstock.idempotency import KEPT_FAILURES
from penstock.ports.tasks import Ended
from penstock.types import Failure, TaskStatus
from penstock.words.messages import Notice, encode

log = logging.getLogger("penstock.tasks")

_GIVE_UP_AFTER = 30.0  # seconds; then `settle` returns what is not stored

_NOTICE_WITHIN = 1.0  # seconds to send a notice


@dataclass(frozen=True, slots=True)
class News:
    """The end of a task, for the gateways that watch it."""

    task: str  # the task's name
    status: TaskStatus
    boxes: Sequence[bytes]  # the mailboxes of those gateways
    code: str = ""  # the error code of its failure; empty where it succeeded


async def tell(post: Post, *news: News) -> None:
    """Send all notices at once. If one is lost, its receivers wait until their own time is over, and no worse."""
    notices = [
        (box.decode(errors="replace"), encode(Notice(each.task, each.status, each.code)))
        for each in news
        for box in each.boxes
    ]
    if not notices:
        return
    try:
        await post.send_all(notices, give_up_after=_NOTICE_WITHIN)
    except StoreDown as error:
        log.warning("notices were not sent", extra={"notices": len(notices), "error": error.message})


class RedisEndings:
    """Implements `ports.tasks.TaskEndings`."""

    def __init__(self, store: Store, post: Post) -> None:
        self._store = store
        self._post = post

    async def processing(self, tasks: Sequence[str]) -> None:
        """Note that these tasks have gone to a worker. Nothing depends on it, so errors are ignored."""
        calls: list[Call] = [([self._store.keys.task(name)], []) for name in tasks]
        await PROCESS.each(self._store, calls)

    async def settle(self, endings: Sequence[Ended]) -> Sequence[Ended]:
        """Store these endings. While Redis is away it tries again, up to a limit, and returns those that were not
        stored by then. The first ending of a task counts, so storing one twice does no harm."""
        patience = Patience("Storing results")
        gives_up = monotonic() + _GIVE_UP_AFTER
        left = list(endings)
        while left:
            answers = await SETTLE.each(self._store, [self._call(ended) for ended in left])
            both = list(zip(left, answers, strict=True))
            away = [answer for answer in answers if isinstance(answer, Exception) and is_outage(answer)]
            left = [ended for ended, answer in both if isinstance(answer, Exception) and is_outage(answer)]
            done = [(ended, answer[1:]) for ended, answer in both if not isinstance(answer, Exception)]
            broken = len(both) - len(left) - len(done)
            if broken:  # these records are not what we wrote; the others are stored all the same
                log.error("results were not stored: their records are broken", extra={"tasks": broken})
            await tell(self._post, *(_news(ended, boxes) for ended, boxes in done))
            if left:
                wait = patience.failed(away[0])
                if monotonic() + wait > gives_up:
                    log.error("results are not stored yet: Redis stays away", extra={"tasks": len(left)})
                    return left
                await asyncio.sleep(wait)
        patience.succeeded()
        return []

    def _call(self, ended: Ended) -> Call:
        failure = ended.failure or Failure("", "")
        lasting = not failure.code or failure.code in KEPT_FAILURES
        return (
            self._store.keys.all_of_task(ended.task),
            [
                ended.outcome.value, ended.output, failure.code, failure.message, failure.details,
                ended.execution, int(lasting),
            ],
        )  # fmt: skip


def _news(ended: Ended, boxes: Sequence[bytes]) -> News:
    code = "" if ended.failure is None else ended.failure.code
    return News(ended.task, TaskStatus(ended.outcome.value), boxes, code)
