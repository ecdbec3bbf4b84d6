"""Who asks, and what becomes of a request that is refused. The data plane asks for each request that takes a while,
and a conversation for each of its messages (`conversation.py`)."""

import logging
from collections.abc import Callable

from penstock.doors.charges import Charges
from penstock.doors.large import LargeBodies
from penstock.doors.steps import Steps, T
from penstock.edge.fields import Headers, request_id
from penstock.errors import PenstockError
from penstock.ports import Doorman, Gateway
from penstock.types import Failure, Identity

log = logging.getLogger("penstock.doors")


class Reception:
    """What stands between any client and the gateway."""

    def __init__(
        self,
        gateway: Gateway,
        doorman: Doorman | None,
        charges: Charges | None,
        large: LargeBodies,
        make_id: Callable[[], str],
    ) -> None:
        """`doorman`: finds out who asks. None: clients need not say who they are. `large`: the line of large
        bodies."""
        self.doorman = doorman
        self._gateway = gateway
        self._charges = charges
        self._large = large
        self._make_id = make_id

    async def identify(self, credentials: Headers) -> Identity | None:
        """Who asks; None if nobody need say it. Raises Unauthorized or Forbidden."""
        return None if self.doorman is None else await self.doorman.identify_slowly(credentials)

    async def look(self, identity: Identity | None, steps: Steps[T]) -> T:
        """Read a large body when it is its turn, if its sender's quota allows a request more."""
        tenant = "" if identity is None else identity.tenant
        return await self._large.look(tenant, self._within_quota(identity, steps))

    def _within_quota(self, identity: Identity | None, steps: Steps[T]) -> Steps[T]:
        """Check the quota when it is a large body's turn, because the bodies before it may have used the quota
        up."""
        if identity is not None and self._charges is not None:
            self._charges.check(identity)
        return (yield from steps)

    def refuse(self, exc: Exception, headers: Headers, door: str) -> tuple[Exception, Failure, str]:
        """Charge, count and log a request that is refused. Returns the error that its client gets, the same in
        words, and the id of the request. `headers`: who asks, and the client's own id. `door`: the name of the
        door; empty if it came to none."""
        if self._charges is not None:
            exc = self._charges.after(exc, headers)
        if isinstance(exc, PenstockError):
            failure, about = Failure.of(exc), exc
        else:
            log.error("a request failed inside the server", exc_info=exc)
            failure, about = Failure("INTERNAL", "the server failed; its log says how"), PenstockError("")
        asked = request_id(headers) or self._make_id()
        self._gateway.count(about, failure, asked, door)
        return exc, failure, asked
