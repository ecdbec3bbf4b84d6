"""Somebody on the machine reads the admin plane without a pause: metrics, health, workers, the overview, dead
letters."""

from aim import Aim, Attack, Withstands
from stage import KEYED

PATHS = (
    "/metrics",
    "/internal/health",
    "/internal/workers",
    "/internal/overview",
    "/internal/dlq?limit=1000",
)


async def send(aim: Aim) -> None:
    async def one() -> None:
        streams = await aim.open(admin=True)
        while True:
            for path in PATHS:
                await aim.ask(streams, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())

    await aim.crowd(4, one)


ADMIN = Attack(
    "admin polls", "Somebody reads the admin plane on four connections, without a pause.", send, KEYED
)


def test_who_reads_the_admin_plane_costs_nobody_else(withstands: Withstands) -> None:
    withstands(ADMIN)
