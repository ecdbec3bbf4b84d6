"""Messages that nobody depends on for good: if they cannot be sent, the log says so."""

import logging
from collections.abc import Sequence

from penstock.ports.bus import Post

log = logging.getLogger("penstock.dispatch")


async def sent(post: Post, messages: Sequence[tuple[str, bytes]]) -> Sequence[bool | None]:
    """Whether each was: False if its receiver has gone, None if nobody knows. If the bus is away for so long that
    this fails, the askers have been told that it is too late."""
    try:
        return await post.send_all(messages)
    except Exception as error:
        log.error("messages were not sent", extra={"messages": len(messages), "error": str(error)})
        return [None] * len(messages)
