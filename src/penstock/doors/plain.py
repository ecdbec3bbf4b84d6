"""Bodies of JSON that need no steps, however large: a few long texts. Doors ask it of each large body (`door.py`),
and a conversation of each large message."""

PLAIN_TEXTS = 16  # texts in a plain body, its names included
PLAIN_REST = 1024  # bytes of a plain body that stand in no text

QUOTE, BACKSLASH = b'"\\'  # numbers: to search bytes for a number takes a fifth of the time


def is_plain(body: bytes) -> bool:
    """Whether a body of JSON is little more than a few long texts in ASCII, without escapes: to look through it
    takes no longer than to read it, whatever its size."""
    if BACKSLASH in body or not body.isascii():
        return False
    at = outside = 0
    for _ in range(PLAIN_TEXTS + 1):
        begin = body.find(QUOTE, at)
        if begin < 0:
            return outside + len(body) - at <= PLAIN_REST
        end = body.find(QUOTE, begin + 1)
        outside += begin - at
        if end < 0 or outside > PLAIN_REST:
            return False
        at = end + 1
    return False
