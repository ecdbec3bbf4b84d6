"""Makes the observers of a process, which are told of its requests and batches. Every role makes one `Observing`,
and hands it to what it wires. One more observer is one more line in it. Whoever keeps the dead letters is also an
observer, and is added where they are kept: `roles/embedded.py` adds its own, and a batcher over a bus has a
`LetterWriter` (`cluster/batcher.py`)."""

import asyncio
import time
from collections.abc import Iterable

from penstock.adapters.observe.ended import Ended
from penstock.adapters.observe.metrics import Metrics
from penstock.adapters.observe.request_log import RequestLog
from penstock.adapters.observe.timeline import Clocks
from penstock.config import Config
from penstock.from_config.tiers import tier_names
from penstock.logs import write_lines
from penstock.ports import Clock
from penstock.roles.ledger import ledger_of
from penstock.roles.recording import recorder_of
from penstock.roles.role import Role
from penstock.roles.tracing import tracing_of
from penstock.runtime.observers import Observers


class Observing:
    """The observers of one process. `told` passes everything on to all of them; the others are kept because the
    process asks them for something."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        clock: Clock,
        models: Iterable[str],
        role: Role,
    ) -> None:
        """`models`: those known from the start."""
        answers = role.answers
        self.clock = clock
        self.metrics = Metrics(models)
        self.ended = Ended(Clocks(clock, time.time))
        self.ledger = ledger_of(config, loop, clock) if answers else None
        self.request_log = request_log_of(config, loop) if answers else None
        self.recorder = recorder_of(config, loop, clock) if answers else None
        self.tracing = tracing_of(config, role, loop, clock)
        self.told = Observers(
            self.metrics,
            self.ended,
            self.ledger,
            self.request_log,
            self.recorder,
            *([] if self.tracing is None else self.tracing.observers),
            # One more observer is one more line here.
        )


def request_log_of(config: Config, loop: asyncio.AbstractEventLoop) -> RequestLog | None:
    """Returns the request log; None if the configuration asks for none."""
    share = config.server.log_requests
    return RequestLog(share, tier_names(config), write_lines, loop) if share else None
