"""The request log: a line of JSON for each request that has ended, or for some of them. A process that answers
clients has a `RequestLog` among its observers, if the configuration asks for the log (`roles/observers.py`).

A thread of the log's own makes text of the lines and writes it (`written_aside`), so no request waits for a slow
reader. A line never holds an input, an output, a key, a token, or the message of an error, which may quote
one of them.
"""

import asyncio
import json
import logging
import random
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from penstock.adapters.written_aside import MOST_WAITING, WrittenAside
from penstock.ports import RequestObserver
from penstock.types import Execution, Refusal, Reply
from penstock.units import iso_time

log = logging.getLogger("penstock.requests")

# A line: id, tenant, tier, model, status, when the request arrived, when it ended (None: it was refused), and how
# it was run.
Line = tuple[str, str, str, str, str, float, float | None, Execution | None]


class RequestLog(RequestObserver):
    """The observer that writes the request log. `share`: the part of all requests, 0 to 1, that is logged."""

    def __init__(
        self,
        share: float,
        tier_names: Sequence[str],
        write: Callable[[str], None],
        loop: asyncio.AbstractEventLoop,
        *,
        chance: Callable[[], float] = random.random,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._share, self._chance = share, chance
        self._tiers = dict(enumerate(tier_names))
        self._lines: WrittenAside[Line] = WrittenAside(
            "request log", lambda lines: write(as_text(lines, time.time())), _tell, loop, most_waiting
        )

    @property
    def dropped(self) -> int:
        return self._lines.dropped

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        if self._share < 1:
            share, chance = self._share, self._chance
            replies = [reply for reply in replies if chance() < share]
        if replies:
            tiers = self._tiers
            self._lines.add(
                [
                    (
                        request.request_id,
                        request.tenant,
                        tiers.get(request.tier, ""),
                        request.model,
                        "SUCCESS" if reply.failure is None else reply.failure.code,
                        request.arrival,
                        now,
                        reply.execution,
                    )
                    for reply in replies
                    for request in (reply.request,)
                ]
            )

    def refused(self, refusal: Refusal) -> None:
        if self._share >= 1 or self._chance() < self._share:
            self._lines.add(
                [(refusal.request_id, refusal.tenant, "", refusal.model, refusal.code, 0.0, None, None)]
            )

    async def close(self) -> None:
        """Write what is left. Called after the last reply."""
        await self._lines.close()


def _tell(dropped: int) -> None:
    log.warning("the log was read too slowly: lines of requests are missing", extra={"lines": dropped})


def as_text(lines: Sequence[Line], now: float) -> str:
    """Returns lines of the log. `now`: seconds since the epoch."""
    head = f'{{"time":"{iso_time(now)}","level":"info","logger":"{log.name}","message":"request","id":'
    return "".join([f"{head}{_rest(line)}" for line in lines])


def _rest(line: Line) -> str:
    """Returns the part of a line after `"id":`. Fields that are not known are left out."""
    request_id, tenant, tier, model, status, arrival, ended, execution = line
    spent = ran = ""
    if ended is not None:
        spent = f',"latency_ms":{(ended - arrival) * 1e3:.3f}'
    if execution is not None:
        queue = f',"queue_ms":{(execution.started - arrival) * 1e3:.3f}'
        ran = f'{queue},"batch_size":{execution.batch_size},"worker":{_quoted(execution.worker)}'
    return f'{json.dumps(request_id)}{_whose(tenant, tier, model)},"status":{_quoted(status)}{spent}{ran}}}\n'


@lru_cache(4096)  # there are few different texts, and clients cannot invent more of them than this
def _whose(tenant: str, tier: str, model: str) -> str:
    known = (("tenant", tenant), ("tier", tier), ("model", model))
    return "".join([f',"{name}":{json.dumps(value)}' for name, value in known if value])


@lru_cache(4096)
def _quoted(text: str) -> str:
    return json.dumps(text)
