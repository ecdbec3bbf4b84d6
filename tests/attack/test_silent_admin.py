"""Somebody opens more connections to the admin plane than it takes, and says nothing."""

import asyncio
import socket
from urllib.parse import urlsplit

from aim import Aim, Attack, Withstands
from stage import KEYED

CLIENTS = 1100
PROBE = b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


def answered(url: str) -> bool:
    """Whoever probes asks as soon as it is connected. In the loop of this attack its question would wait for a
    thousand silent clients, and the server would take it for one of them."""
    place = urlsplit(url)
    try:
        with socket.create_connection((place.hostname, place.port), timeout=10.0) as connection:
            connection.sendall(PROBE)
            return connection.recv(12) == b"HTTP/1.1 200"
    except OSError:
        return False


async def send(aim: Aim) -> None:
    async def say_nothing() -> None:
        reader, _ = await aim.open(admin=True)
        await reader.read()  # until it is closed
        await asyncio.sleep(1.0)

    async def probe() -> None:
        while True:
            await asyncio.sleep(0.1)
            good = await asyncio.to_thread(answered, aim.admin_url)
            aim.tally["probes answered" if good else "probes that failed"] += 1

    async with asyncio.TaskGroup() as group:
        group.create_task(aim.crowd(CLIENTS, say_nothing))
        group.create_task(probe())


SILENT_ADMIN = Attack(
    "silent admin",
    "Somebody opens 1,100 connections to the admin plane and says nothing.",
    send,
    KEYED,
    until="probes answered",
)


def test_the_probes_are_answered_and_nobody_else_notices(withstands: Withstands) -> None:
    verdict = withstands(SILENT_ADMIN)
    assert verdict.tally["probes answered"] >= 1
    assert "probes that failed" not in verdict.tally, verdict
