"""Bodies at the edge of their time (SPEC A7)."""

import asyncio
from typing import Any, cast

from penstock.http.body import Bodies
from penstock.http.rsgi import Exchange, RequestHeaders
from penstock.testing import run_virtual


def test_a_body_that_arrives_in_the_turn_that_would_cut_it_off_is_taken() -> None:
    async def body() -> None:
        loop = asyncio.get_running_loop()
        bodies = Bodies(loop.time, 100, 5.0)
        arriving: asyncio.Future[bytes] = loop.create_future()
        headers = cast(RequestHeaders, {"content-length": "2"})
        exchange = cast(Exchange, cast(Any, lambda: arriving))
        loop.call_later(5.0, arriving.set_result, b"{}")  # due with the cut, and before it
        pending = bodies.start(headers, exchange)
        assert await pending == b"{}"
        bodies.done(pending)

    run_virtual(body())
