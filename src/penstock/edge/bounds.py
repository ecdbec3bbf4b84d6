"""What a client may send and how long it may take: the states of a connection, sizes, and the errors with which a
client is refused. Connections and streams go by these; nothing here keeps or measures anything."""

from penstock.errors import BodyTooSlow, HeadTooLarge, HeadTooSlow, Overloaded, TooLarge

MOST_HEADERS = 100  # of one request
# Bytes of an unfinished head, or of what comes between two chunks of a body or after the last.
MOST_HEAD = 64 * 1024
MOST_REPEATED = 8 * 1024  # bytes of a header that comes several times; each time they are copied
MOST_BLANK = 1024  # bytes of empty lines before a request
MOST_THROWN_AWAY = 32 * 1024  # bytes read after a refusal
# Bytes. What an unfinished request holds beyond this is counted, and we find out who sends it.
LITTLE = 4096
# Bytes. After a read longer than this, or while a body is longer, nothing more is read until others had their turn.
BULK = 64 * 1024
# So many connections beyond the limit are told that there are too many. Any further one is cut off without an
# answer.
REFUSED_AT_ONCE = 64


class State:
    """What a connection waits for, as plain numbers. The edge limits the time of every state but the last two."""

    NEW = 0  # waits for its first byte
    IDLE = 1  # waits for the next request
    HEAD = 2  # waits for the rest of a request's head
    BODY = 3  # waits for the rest of a request's body
    SENDING = 4  # waits for the client to read
    LINGERING = 5  # waits for the client to notice that this was the last answer
    QUIET = 6  # a WebSocket or stream of messages on which nothing is in flight: waits for a sign of life
    BUSY = 7  # waits for the answer, whose deadline is the gateway's matter
    CLOSED = 8


def too_many(connections: int) -> Overloaded:
    message = f"too many connections are open: at most {connections} may be (server.max_connections)"
    return Overloaded(message, retry_after=1.0)


def too_large(limit: int, declared: bytes | None = None) -> TooLarge:
    said = "larger" if declared is None else f"{declared[:20].decode()} bytes"
    return TooLarge(f"the body is {said}, and limits.max_body is {limit} bytes")


def body_too_slow(seconds: float) -> BodyTooSlow:
    return BodyTooSlow(f"the body did not arrive within the {seconds:g} s that limits.body_timeout allows")


def head_too_slow(seconds: float) -> HeadTooSlow:
    return HeadTooSlow(f"the head did not arrive within the {seconds:g} s that limits.header_timeout allows")


def head_too_large() -> HeadTooLarge:
    return HeadTooLarge(f"the head is longer than {MOST_HEAD} bytes")


def trailers_too_large() -> HeadTooLarge:
    return HeadTooLarge(
        f"what stands between the pieces of the body, or after it, is longer than {MOST_HEAD} bytes"
    )


def repeated_too_large() -> HeadTooLarge:
    return HeadTooLarge(f"a header that is repeated is longer than {MOST_REPEATED} bytes in all")


def message_too_slow(seconds: float) -> str:
    return f"the message did not arrive within the {seconds:g} s that limits.body_timeout allows"


def not_introduced(seconds: float) -> str:
    return f"nobody said who asks within the {seconds:g} s that limits.header_timeout allows"


def quiet_for_long(seconds: float) -> str:
    return f"nothing was asked for {seconds:g} s: limits.stream_idle_timeout"


def crowded_out(limit: int) -> Overloaded:
    message = (
        "the server holds too many requests that have not come in full:"
        f" limits.max_unfinished_bytes is {limit}; send this one again, and faster"
    )
    return Overloaded(message, retry_after=1.0)
