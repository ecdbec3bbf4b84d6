"""An identity provider beside a test that is not asynchronous: a real HTTP server in a thread of its own."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from token_kit import IdentityProvider, identity_provider


@contextmanager
def identity_thread() -> Iterator[IdentityProvider]:
    """When the block ends, nobody listens at its address any more."""
    ready, over = threading.Event(), threading.Event()
    found: list[IdentityProvider] = []

    async def serve() -> None:
        async with identity_provider() as provider:
            found.append(provider)
            ready.set()
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        assert ready.wait(60)
        yield found[0]
    finally:
        over.set()
        thread.join(60)
