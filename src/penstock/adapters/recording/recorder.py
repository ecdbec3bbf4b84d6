"""Records arrivals in a file, if `[trace] record` names one: when each request came, how long it was, and how long
its answer. `roles/recording.py` makes the `Recorder`, an observer of a process that answers clients. No input, no
output and no id of anybody is written; a tenant is a small number.

What is recorded is the load on the workers. A request that the cache answered is left out, and so is one that was
refused for its own sake (a wrong body, no key, a quota spent). A request that was refused because there was no room
is recorded, without its size, which is not known any more. So a recorded overload does not look smaller than it
was.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

from penstock.adapters.recording.file import RecordFile
from penstock.adapters.written_aside import MOST_WAITING, WrittenAside
from penstock.errors import HopelessDeadline, Overloaded
from penstock.ports import Clock, RequestObserver
from penstock.types import Refusal, Reply
from penstock.units import iso_time

log = logging.getLogger("penstock")

NO_ROOM = frozenset({Overloaded.code, HopelessDeadline.code})  # refusals that tell of the load
MOST_TENANTS = 1000  # further tenants share one number
BYTES_PER_TOKEN = 4  # where nothing else says how dear a request is; as in `from_config/input_cost.py`

# A line: arrival (by the process's clock), bytes in, bytes out, cost (0: one request as any other), tenant,
# tier and model. Sizes are None of a request that was refused.
Line = tuple[float, int | None, int | None, float, int, str, str]


class Recorder(RequestObserver):
    """Records arrivals in a file, by a thread of its own."""

    def __init__(
        self,
        file: RecordFile,
        tier_names: Sequence[str],
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        *,
        wall_clock: Callable[[], float] = time.time,
        most_waiting: int = MOST_WAITING,
    ) -> None:
        self._tiers = dict(enumerate(tier_names))
        self._tenants: dict[str, int] = {}
        self._lines: WrittenAside[Line] = WrittenAside(
            "recorder", self._write, self._tell, loop, most_waiting
        )
        self._file, self._clock, self._wall_clock = file, clock, wall_clock

    @property
    def recorded(self) -> int:
        return self._lines.written

    @property
    def dropped(self) -> int:
        return self._lines.dropped

    def answered(self, replies: Sequence[Reply], now: float) -> None:
        tiers, number = self._tiers, self._number
        self._lines.add(
            [
                (
                    request.arrival,
                    len(request.input),
                    len(reply.output),
                    request.cost,
                    number(request.tenant),
                    tiers.get(request.tier, ""),
                    request.model,
                )
                for reply in replies
                if reply.execution is None or not reply.execution.cached
                for request in (reply.request,)
            ]
        )

    def refused(self, refusal: Refusal) -> None:
        if refusal.code in NO_ROOM:
            tenant = self._number(refusal.tenant)
            self._lines.add([(refusal.when, None, None, 1.0, tenant, "", refusal.model)])

    def _number(self, tenant: str) -> int:
        """Returns the small number that stands for a tenant. Nobody can tell the name from it."""
        if tenant not in self._tenants and len(self._tenants) >= MOST_TENANTS:
            return MOST_TENANTS
        return self._tenants.setdefault(tenant, len(self._tenants))

    async def close(self) -> None:
        await self._lines.close()
        self._file.close()

    # ---- the thread ----------------------------------------------------------------------------------------

    def _write(self, lines: Sequence[Line]) -> None:
        self._file.write(as_text(lines, self._wall_clock() - self._clock()))

    def _tell(self, dropped: int) -> None:
        why = self._file.trouble or "the disk is too slow"
        log.warning(
            f"trace.record: arrivals are missing in {self._file.path}: {why}", extra={"requests": dropped}
        )


def as_text(lines: Sequence[Line], since_epoch: float) -> str:
    """Returns lines of the file. `since_epoch`: what to add to a time of the process's clock."""
    return "".join([_line(line, since_epoch) for line in lines])


def _line(line: Line, since_epoch: float) -> str:
    arrival, bytes_in, bytes_out, cost, tenant, tier, model = line
    whole, part = divmod(arrival + since_epoch, 1.0)
    when = f"{_second(int(whole))}.{int(part * 1e7):07}"
    if bytes_in is None:
        return f"{when},,,,{tenant},{tier},{_field(model)}\n"
    tokens = round(cost) if cost != 1.0 else max(1, bytes_in // BYTES_PER_TOKEN)
    return f"{when},{tokens},{bytes_in},{bytes_out},{tenant},{tier},{_field(model)}\n"


@lru_cache(64)
def _second(whole: int) -> str:
    return iso_time(whole, "seconds").replace("T", " ").removesuffix("Z")


@lru_cache(4096)
def _field(text: str) -> str:
    """Returns a text as a field of CSV."""
    quoted = text.replace('"', '""')
    return f'"{quoted}"' if any(mark in text for mark in ',"\r\n') else text
