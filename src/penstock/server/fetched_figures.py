"""Fetches the metrics pages of other processes, for the line of figures at the terminal of `penstock up`, whose
plan says which pages (`installation/plan.py`)."""

import asyncio
from collections.abc import Sequence

from aiohttp import ClientError, ClientSession, ClientTimeout

PATIENCE = 2.0  # seconds for a page


async def fetched(planes: Sequence[str], token: str) -> list[str]:
    """Returns the metrics page of each process. `planes`: the URLs of their admin planes. The page of one that does
    not answer is empty."""
    headers = {"authorization": f"Bearer {token}"} if token else {}

    async def page(session: ClientSession, plane: str) -> str:
        try:
            async with session.get(f"{plane}/metrics", ssl=False) as answer:
                return await answer.text() if answer.status == 200 else ""
        except (ClientError, TimeoutError):
            return ""

    async with ClientSession(headers=headers, timeout=ClientTimeout(PATIENCE)) as session:
        return await asyncio.gather(*(page(session, plane) for plane in planes))
