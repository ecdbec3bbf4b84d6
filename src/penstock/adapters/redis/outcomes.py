"""How tasks end: written down once by whoever knows, and told to the gateways where somebody waits."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from penstock.adapters.redis.connect import Patience, Store
from penstock.adapters.redis.mailbox import Post
from penstock.adapters.redis.scripts import Call
from penstock.adapters.redis.task_scripts import PROCESS, SETTLE
from penstock.adapters.redis.wire import Notice, encode
from penstock.errors import StoreDown
from penstock.types import Failure, Outcome, TaskStatus

log = logging.getLogger("penstock.tasks")

_GIVE_UP_AFTER = 30.0  # seconds: a Redis that was away for so long may well have lost the task

_NOTICE_WITHIN = 1.0


@dataclass(frozen=True, slots=True)
class Ended:
    task: str  # its name
    outcome: Outcome
    output: bytes = b""
    failure: Failure | None = None


async def tell(post: Post, task: str, outcome: Outcome, code: str, boxes: Sequence[bytes]) -> None:
    """The gateways where somebody waits. A notice that is lost costs them the rest of their wait, no more."""
    notice = encode(Notice(task, TaskStatus(outcome.value), code))
    try:
        await post.send_all([(box.decode(), notice) for box in boxes], give_up_after=_NOTICE_WITHIN)
    except StoreDown as error:
        log.warning("a notice was not sent", extra={"error": error.message})


class Outcomes:
    def __init__(self, store: Store, post: Post) -> None:
        self._store = store
        self._post = post

    async def processing(self, tasks: Sequence[str]) -> None:
        """They have gone to a worker. Nobody depends on it, so an outage is let pass."""
        calls: list[Call] = [([self._store.keys.task(name)], []) for name in tasks]
        await PROCESS.each(self._store, calls)

    async def settle(self, endings: Sequence[Ended]) -> None:
        """Waits out an outage, up to a limit: the first ending of a task counts, so twice does no harm."""
        patience = Patience("Storing results")
        gives_up = monotonic() + _GIVE_UP_AFTER
        left = list(endings)
        while left:
            answers = await SETTLE.each(self._store, [self._call(ended) for ended in left])
            both = list(zip(left, answers, strict=True))
            left = [ended for ended, answer in both if isinstance(answer, Exception)]
            for ended, answer in both:
                if not isinstance(answer, Exception) and len(answer) > 1:
                    code = ended.failure.code if ended.failure is not None else ""
                    await tell(self._post, ended.task, ended.outcome, code, answer[1:])
            if left:
                wait = patience.failed(next(each for each in answers if isinstance(each, Exception)))
                if monotonic() + wait > gives_up:
                    log.error("results were not stored: Redis stayed away", extra={"tasks": len(left)})
                    return
                await asyncio.sleep(wait)
        patience.succeeded()

    def _call(self, ended: Ended) -> Call:
        keys = self._store.keys
        failure = ended.failure or Failure("", "")
        return (
            [keys.task(ended.task), keys.watch(ended.task)],
            [ended.outcome.value, ended.output, failure.code, failure.message, failure.details],
        )
