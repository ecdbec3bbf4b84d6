"""Sends messages whose loss harms nobody for long: if they cannot be sent, only the log says so. A batcher sends so
to gateways and workers (`dispatch.py`), and a worker to gateways and batchers (`worker_post.py`)."""

import logging
from collections.abc import Sequence

from penstock.ports.bus import Post

log = logging.getLogger("penstock.dispatch")


async def sent(post: Post, messages: Sequence[tuple[str, bytes]]) -> Sequence[bool | None]:
    """Send messages. Returns for each whether it was sent: False if its receiver has gone, None if that is not
    known. If the bus is away so long that this fails, most askers' deadlines have passed."""
    try:
        return await post.send_all(messages)
    except Exception as error:
        log.error("messages were not sent", extra={"messages": len(messages), "error": str(error)})
        return [None] * len(messages)
