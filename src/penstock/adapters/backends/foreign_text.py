"""Error messages and names from a user's code, made fit to be sent to the server and to be logged. Text in, text
out.

Such text may be endless, not even text, or quote an input, which must not get into a log: that is what
`without_quotes` is for. The process that runs the function uses this wherever it says what went wrong (`child.py`,
`loading.py`, `reading.py`, `outputs.py`). `out_of_memory.py` uses `readable`, in that process and in the server.
"""

import re
from collections.abc import Iterator, Sequence

import msgspec

LONGEST_MESSAGE = 500  # characters
SHORTEST_QUOTE = 4  # characters in a row that a message has in common with an input to count as a quotation
MOST_COMPARED = 1 << 20  # bytes of a batch; an error's message about a larger one is not logged
GAP = "…"  # stands for what was left out

_WORD = re.compile(r"\w+")


def describe(error: BaseException | object) -> str:
    """Returns the message of an error, on one line, fit for a frame."""
    try:
        text = str(error)
    except Exception:  # an exception that cannot even say what it is
        text = "(its message could not be read)"
    return utf8(" ".join(text.split())[:LONGEST_MESSAGE])


def named(kind: type[BaseException], message: object) -> str:
    """Returns the kind of an error and its message, such as `ValueError: message`."""
    text = describe(message)
    return utf8(f"{kind.__name__}: {text}"[:LONGEST_MESSAGE] if text else kind.__name__)


def utf8(text: str) -> str:
    """Returns the text without what UTF-8 cannot hold, such as half a surrogate pair: a frame holds UTF-8 only."""
    return text.encode("utf-8", "replace").decode()


def without_quotes(message: str, payloads: Sequence[bytes]) -> str:
    """Returns an error's message without what it may quote from the batch: a gap stands for each such word.

    A word is left out if any four characters of it stand in a row in a payload too, or if it is a word of one.
    What a function has made of an input (its translation, its hash) cannot be recognised.
    """
    if sum(map(len, payloads)) > MOST_COMPARED:
        return GAP
    folded = message.casefold()
    if len(folded) != len(message):  # some letters become two, so that positions would no longer agree
        message = folded
    given = "\n".join(readable(payload) for payload in payloads).casefold()
    quoted = bytearray(len(message))
    for start in range(len(message) - SHORTEST_QUOTE + 1):
        if folded[start : start + SHORTEST_QUOTE] in given:
            quoted[start : start + SHORTEST_QUOTE] = b"\x01" * SHORTEST_QUOTE
    known = set(_WORD.findall(given))
    for word in _WORD.finditer(folded):
        if any(quoted[word.start() : word.end()]) or word[0] in known:
            quoted[word.start() : word.end()] = b"\x01" * len(word[0])
    kept = "".join("\0" if hidden else letter for letter, hidden in zip(message, quoted, strict=True))
    return re.sub("\0+", GAP, kept)


def readable(payload: bytes) -> str:
    """Returns a payload as JSON and, if it has escapes, its texts decoded as well: a message may quote either."""
    text = payload.decode(errors="replace")
    if "\\" not in text:
        return text
    try:
        return "\n".join([text, *_texts(msgspec.json.decode(payload))])
    except msgspec.DecodeError:
        return text


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case dict():
            for key, item in value.items():
                yield key
                yield from _texts(item)
