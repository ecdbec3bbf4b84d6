"""Fetches the metrics pages of other processes, for the line of figures at the terminal of `penstock up`, whose
plan says which pages (`installation/plan.py`)."""

import asyncio
from collections.abc import Sequence

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

PATIENCE = 2.0  # seconds for a page


async def fetched(planes: Sequence[str], token: str) -> list[str]:
    """Returns the metrics page of each process. `planes`: the URLs of their admin planes. The page of one that does
    not answer is empty."""

    async def page(session: ClientSession, plane: str) -> str:
        try:
            async with session.get(f"{plane}/metrics") as answer:
                return await answer.text() if answer.status == 200 else ""
        except (ClientError, TimeoutError):
            return ""

    async with admin_session(token) as session:
        return await asyncio.gather(*(page(session, plane) for plane in planes))


def admin_session(token: str) -> ClientSession:
    """Returns a session for the admin planes of processes that we started ourselves: their certificates need not be
    looked at. `token`: the service token; empty if none is asked for."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return ClientSession(headers=headers, connector=TCPConnector(ssl=False), timeout=ClientTimeout(PATIENCE))
