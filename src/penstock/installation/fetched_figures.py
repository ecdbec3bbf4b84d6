"""Fetches the metrics pages of the processes that `penstock up` has started, over HTTP, for its line of figures at
the terminal. `cli/up.py` takes `figures_of` and hands it to `server/figures.py`, which shows the line. The
supervisor asks these processes too, by an `admin_session`."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from aiohttp import ClientError, ClientSession, ClientTimeout, TCPConnector

from penstock.config import Config
from penstock.installation.plan import UpPlan
from penstock.server.figures import Pages

PATIENCE = 2.0  # seconds for a page


def figures_of(plan: UpPlan, config: Config) -> Callable[[], Awaitable[Pages]]:
    """Returns a function that fetches the metrics pages of all parts."""
    server, host = config.server, config.server.admin_host
    scheme = "https" if config.tls.admin else "http"
    planes = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for port in plan.admin_ports]

    async def fetch() -> Pages:
        pages = await fetched(planes, server.admin_token)
        first, last = plan.gateways, plan.gateways + plan.batchers
        return Pages(pages[:first], pages[first:last], pages[last:])

    return fetch


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
    """Returns a session for the admin planes of processes that we started ourselves, whose certificates need not be
    looked at. `token`: the service token; empty if none is asked for."""
    headers = {"authorization": f"Bearer {token}"} if token else {}
    return ClientSession(headers=headers, connector=TCPConnector(ssl=False), timeout=ClientTimeout(PATIENCE))
