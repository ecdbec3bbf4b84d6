"""A call for which there is no room is refused when its first input is in; where that is not sure, one by one."""

import asyncio
from collections.abc import Sequence

import pytest

from penstock.config import load
from penstock.errors import Overloaded
from penstock.ports import Asker
from penstock.roles.embedded import embedded
from penstock.runtime.embedded_server import EmbeddedServer
from penstock.runtime.waiters import Waiter
from penstock.types import Ask, Reply

ROOM = 100


class Caller:
    def answered(self, replies: Sequence[Reply]) -> None:
        raise AssertionError("nothing of it was let in")


@pytest.mark.parametrize(
    ("settings", "most"),
    [({}, 1), ({"model.cost": "characters"}, ROOM), ({"model.deterministic": "true"}, ROOM)],
)
def test_of_a_call_that_does_not_fit_into_the_queue_only_the_first_is_let_in(
    settings: dict[str, str], most: int
) -> None:
    async def body() -> None:
        patient = dict.fromkeys(("timeouts.queue", "timeouts.processing", "timeouts.request"), "60s")
        config = load(
            None, {}, {"model.target": "sim:5ms", "limits.max_queue": str(ROOM), **patient, **settings}
        )
        server = embedded(config, asyncio.get_running_loop()).inside
        assert isinstance(server, EmbeddedServer)
        server.start()
        await server.started
        gateway, entered = server.gateway, list[Waiter]()
        submit = gateway.submit

        def counted(ask: Ask, asker: Asker) -> Waiter:
            waiter = submit(ask, asker)
            entered.append(waiter)
            return waiter

        gateway.submit = counted  # type: ignore[method-assign]
        try:
            with pytest.raises(Overloaded, match=r"limits\.max_queue"):
                gateway.submit_all([Ask(b'"%d"' % number) for number in range(1024)], Caller())
            assert len(entered) <= most
            assert (len(entered) == 1) == (most == 1)
            assert server.unfinished == 0
        finally:
            await server.stop()

    asyncio.run(body())
