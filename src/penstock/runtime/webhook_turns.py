"""Whose message is carried next: tenants in turn, each of which has a line for each origin that it calls.
`webhooks.py` waits here before each attempt.

So many are under way at once, of these so many to one origin, and so many of one tenant: an address that does not
answer holds up itself, and a tenant that has named many of them holds up itself.
"""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

Line = deque["asyncio.Future[None]"]


class Turns:
    def __init__(self, at_once: int, to_one: int, of_one: int) -> None:
        """`to_one`: of those at once, to one origin; `of_one`: of one tenant."""
        self._at_once, self._to_one, self._of_one = at_once, to_one, of_one
        self._lines: dict[str, dict[str, Line]] = {}  # by tenant and origin; whose turn is next stands first
        self._origins: Counter[str] = Counter()  # of those under way
        self._tenants: Counter[str] = Counter()

    @property
    def is_quiet(self) -> bool:
        """Whether nobody waits, and nothing is under way."""
        return not (self._lines or self._origins or self._tenants)

    @asynccontextmanager
    async def turn(self, tenant: str, origin: str) -> AsyncIterator[None]:
        called: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines.setdefault(tenant, {}).setdefault(origin, deque()).append(called)
        self._call()
        try:
            await called
        except asyncio.CancelledError:
            if not called.cancelled():  # it was called at the same moment
                self._ended(tenant, origin)
            raise
        try:
            yield
        finally:
            self._ended(tenant, origin)

    def _ended(self, tenant: str, origin: str) -> None:
        for counts, name in ((self._tenants, tenant), (self._origins, origin)):
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        self._call()

    def _call(self) -> None:
        """Calls as many as there is room for. Those who were cancelled meanwhile are passed over."""
        while self._tenants.total() < self._at_once and (found := self._next()) is not None:
            tenant, origin, called = found
            if not called.done():
                self._tenants[tenant] += 1
                self._origins[origin] += 1
                called.set_result(None)

    def _next(self) -> "tuple[str, str, asyncio.Future[None]] | None":
        """Takes the next out of its line; its tenant, and its origin of the tenant's, then stand last."""
        for tenant, lines in self._lines.items():
            if self._tenants[tenant] >= self._of_one:
                continue
            for origin, line in lines.items():
                if self._origins[origin] >= self._to_one:
                    continue
                called = line.popleft()
                del lines[origin], self._lines[tenant]
                if line:
                    lines[origin] = line
                if lines:
                    self._lines[tenant] = lines
                return tenant, origin, called
        return None
