"""A process that records until it is killed: `python recording_process.py <ledger url> <spool>`.

Prints, once and again, how many rows are out of its memory: those it must not lose any more.
"""

import asyncio
import sys
import time
from pathlib import Path

from penstock.adapters.ledger.open import open_store
from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.ledger.spool import Spool
from penstock.adapters.ledger.writer import Writer
from penstock.types import Accepted, Outcome, Reply

BATCH = 50


async def record(url: str, spool: Path) -> None:
    writer = Writer(Spool(spool, 2**30), open_store(url), None, time.time)
    recorder = Recorder(writer, [], asyncio.get_running_loop(), time.monotonic)
    recorder.start()
    number = 0
    while True:
        now = time.monotonic()
        replies = [
            Reply(Accepted(f"k{number + n}", "embed", b"1", now, now, now, tenant="acme"), Outcome.SUCCESS)
            for n in range(BATCH)
        ]
        recorder.answered(replies, now)
        number += BATCH
        if number % (4 * BATCH) == 0:
            recorder.flush()
        print(writer.given - writer.in_memory, recorder.recorded, flush=True)
        await asyncio.sleep(0.002)


asyncio.run(record(sys.argv[1], Path(sys.argv[2])))
