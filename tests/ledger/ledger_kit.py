"""What the tests of the ledger share: replies to record, recorders over any store, and a count of what arrived."""

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.ledger.rows import PastRequest, Row
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.store import LedgerAway, Store
from penstock.adapters.ledger.writer import Writer
from penstock.types import Accepted, Failure, Outcome, Reply

EVERYTHING = 10**9
PATIENCE = 60.0


def row(number: int, *, tenant: str = "acme", status: str = "SUCCESS", completed: float = 1000.0) -> Row:
    return (f"k{number}", f"r{number}", tenant, "paid", "embed", status, completed - 0.25, completed)


def reply(number: int, now: float, *, failure: Failure | None = None, tier: int = 0) -> Reply:
    request = Accepted(
        f"k{number}", "embed", b"1", now - 0.25, now, now, f"r{number}", tenant="acme", tier=tier
    )
    return Reply(request, Outcome.SUCCESS if failure is None else Outcome.FAILED, failure=failure)


def replies(numbers: Iterable[int]) -> list[Reply]:
    now = time.monotonic()
    return [reply(number, now) for number in numbers]


@asynccontextmanager
async def recording(
    store: Store,
    directory: Path,
    *,
    retention: float | None = None,
    max_bytes: int = 2**30,
    seconds: float = PATIENCE,
) -> AsyncIterator[Recorder]:
    """A recorder; at the end it has delivered what can be delivered."""
    writer = Writer(Spool(directory, max_bytes, sync=False), store, retention, time.time)
    recorder = Recorder(writer, ["free", "paid"], asyncio.get_running_loop(), time.monotonic)
    recorder.start()
    try:
        yield recorder
    finally:
        await recorder.close(seconds)


class Refusing:
    """A store that takes nothing."""

    def write(self, spool: str, number: int, lines: bytes, *, shared: bool = False) -> int:
        raise LedgerAway("refused")

    def forget(self, before: float, about: int) -> int:
        raise LedgerAway("refused")

    def query(
        self,
        tenant: str | None,
        since: float | None,
        status: str | None,
        limit: int,
        request_id: str | None = None,
    ) -> Sequence[PastRequest]:
        raise LedgerAway("refused")

    def close(self) -> None:
        pass


def missing_and_doubled(store: Store, expected: Iterable[int]) -> tuple[int, int]:
    """Of the rows k<number>."""
    found = Counter(entry.id for entry in store.query(None, None, None, EVERYTHING))
    wanted = {f"k{number}" for number in expected}
    assert set(found) <= wanted, "rows that nobody recorded"
    return len(wanted - set(found)), sum(times - 1 for times in found.values())
