"""What all words have in common: how their version is written, and which numbers may be in them. The other modules
of this folder use it, and so do `cluster` and the adapters to a bus where they meet words that they cannot read
(`Garbled`).

A message or an envelope is MessagePack behind one byte for its version. What lies in the registry is JSON with a
`format`; if that is absent, it is format 1. In both forms a process of another release may send more fields or
fewer: unknown fields are skipped, and missing ones have their defaults. The version changes only if an older
process would misunderstand a word.
"""

from collections.abc import Callable
from typing import Annotated, TypeVar

from msgspec import UNSET, DecodeError, Meta, Struct, UnsetType, json

T = TypeVar("T")

VERSION = b"\x01"  # the version of messages and envelopes
FORMAT = 1  # the format of what lies in the registry

# Kinds of numbers that words may hold. A word with NaN or an infinite number in it counts as unreadable, since no
# queue can be ordered by that.
Finite = Annotated[float, Meta(ge=-1e12, le=1e12)]
Amount = Annotated[float, Meta(ge=0.0, le=1e12)]
Count = Annotated[int, Meta(ge=0)]
Known = Annotated[int, Meta(ge=1, le=FORMAT)]


class Garbled(Exception):
    """Raised for bytes that are no word of ours, or of a version that we do not know. They are to be set aside."""


class RegistryWord(Struct, kw_only=True):
    """A word that lies in the registry, about a process or a model. It is written as JSON."""

    format: Known | UnsetType = UNSET


def content(body: bytes) -> memoryview:
    """The MessagePack of a message or envelope, without its version. Raises Garbled for another version."""
    if body[:1] != VERSION:
        raise Garbled(f"a message of version {body[0] if body else 'nothing'}, and we speak {VERSION[0]}")
    return memoryview(body)[1:]


def write(word: RegistryWord) -> bytes:
    return json.encode(word)


def reader(of: type[T]) -> Callable[[bytes], T]:
    """Returns a function that reads what `write` has written. That function raises Garbled."""
    decode = json.Decoder(of).decode

    def read(text: bytes) -> T:
        try:
            return decode(text)
        except (DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Garbled(str(error)) from None

    return read
