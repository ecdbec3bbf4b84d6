"""What all words have in common: how a version is told, and which numbers may stand in them.

A message or an envelope is MessagePack behind one byte for its version. What lies in the registry is JSON with a
`format`; where that is absent, it is the first. In both forms a process of another release may say more or less.
What is not known is skipped, and what is missing has its default. A new version is only for what would be
misunderstood.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, json

T = TypeVar("T")

VERSION = b"\x01"
FORMAT = 1

# A number that a queue can be ordered by: what is not a number, or is infinite, is as unreadable as a broken
# list.
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
Count = Annotated[int, Meta(ge=0)]
Known = Annotated[int, Meta(ge=1, le=FORMAT)]


class Garbled(Exception):
    """These bytes are not a word of ours, or of a version that we do not speak: they are to be set aside and
    skipped."""


class RegistryWord(Struct, kw_only=True):
    """What lies in the registry about a process or a model, as JSON."""

    format: Known | UnsetType = UNSET


def content(body: bytes) -> memoryview:
    if body[:1] != VERSION:
        raise Garbled(f"a message of version {body[0] if body else 'nothing'}, and we speak {VERSION[0]}")
    return memoryview(body)[1:]


def write(word: RegistryWord) -> bytes:
    return json.encode(word)


def reader(of: type[T]) -> Callable[[bytes], T]:
    """A function that reads what `write` has written. It raises Garbled."""
    decode = json.Decoder(of).decode

    def read(text: bytes) -> T:
        try:
            return decode(text)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Garbled(str(error)) from None

    return read
