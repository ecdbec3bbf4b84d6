"""What begins and ends with a server: who is let in, the ledger, the log of requests."""

from collections.abc import Sequence

from penstock.adapters.ledger.recorder import Recorder
from penstock.adapters.observe.request_log import RequestLog
from penstock.loops import Loops
from penstock.ports.process import Companion
from penstock.roles.auth import Doorkeeper
from penstock.roles.ledger import LEDGER_SECONDS
from penstock.roles.reload import Reloader


def all_of(
    ledger: Recorder | None,
    keeper: Doorkeeper | None,
    request_log: RequestLog | None,
    reloader: Reloader | None = None,
) -> Sequence[Companion]:
    """Those that are there."""
    made: list[Companion] = []
    if ledger is not None:
        made.append(_Ledger(ledger))
    if reloader is not None:
        made.append(reloader)
    if keeper is not None:
        made.append(keeper)
    if request_log is not None:
        made.append(_Log(request_log))
    return made


class _Ledger:
    def __init__(self, ledger: Recorder) -> None:
        self._ledger = ledger

    async def open(self, loops: Loops) -> None:
        self._ledger.start()

    async def close(self) -> None:
        await self._ledger.close(LEDGER_SECONDS)


class _Log:
    def __init__(self, request_log: RequestLog) -> None:
        self._request_log = request_log

    async def open(self, loops: Loops) -> None:
        """Nothing to begin with."""

    async def close(self) -> None:
        await self._request_log.close()
