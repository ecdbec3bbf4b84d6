"""The start of a backend, within a time limit: what the backends for functions (`process.py`) and for endpoints
(`http.py`, `grpc.py`) do around their own first steps. A worker's slot calls their `start`, which uses this."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from penstock.errors import BackendError, BackendTimeout
from penstock.ports import Backend


@asynccontextmanager
async def getting_ready(backend: Backend, seconds: float, too_late: BackendError) -> AsyncIterator[None]:
    """Closes the backend again if what is done within this context fails or takes longer than `seconds`. In the
    latter case it raises `too_late`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        await backend.close()
        raise too_late from None
    except BaseException:
        await backend.close()
        raise


def not_in_time(where: str, seconds: float) -> BackendTimeout:
    """Returns the error for an endpoint that is not ready in time."""
    return BackendTimeout(f"{where} was not ready within the {seconds:g} s that start_timeout allows")
