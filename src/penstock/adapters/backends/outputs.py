"""Makes JSON of what a function returns, one piece for each input. `contract.py` calls it in the function's
process, after each batch.

A batch of plain texts is encoded at once. Other outputs (arrays and tensors, rows of one, dataclasses, pydantic
models, bytes) are recognised by the methods that they have, so that no library is imported that the function has
not imported itself. An output that JSON cannot hold fails its own request; the others of its batch are served.
"""

from collections.abc import Callable, Container, Mapping, Sequence, Set
from functools import partial
from math import isfinite
from typing import Any, NamedTuple

import msgspec

from penstock.adapters.backends.foreign_text import describe, utf8
from penstock.output import Output, of_bytes, with_note

_encode_plain = msgspec.json.Encoder().encode
COMMON = frozenset((str, bool, int, float, list, dict))  # outputs that may be encoded together

ONE_EACH = "return one output for each input, in the same order"


class ContractBroken(Exception):
    """The function did not return one output for each input."""


class ItemFailed(Exception):
    """One input has no output. `message` is fit for anybody; `details` may quote the input."""

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class Encoded(NamedTuple):
    """The outputs of a batch, and which inputs have none."""

    outputs: list[bytes]  # JSON, each with its note; empty for an input that failed
    failed: list[tuple[int, str, str]]  # as in `frames.Done.failed`


class Outputs:
    """Encodes the outputs of one function."""

    def __init__(self, function: str, kind: str) -> None:
        """`kind`: auto, text or json. With text, anything that is not text fails its request."""
        self._function = function
        self._text_only = kind == "text"

    def encode(self, outputs: Any, count: int, binary: Container[int] = ()) -> Encoded:
        """Returns the outputs of a batch of `count` inputs as JSON. `binary`: the positions of inputs that were not
        JSON. For these, bytes stay as they are. Raises ContractBroken."""
        if type(outputs) is not list:
            outputs = self._listed(outputs)
        if len(outputs) != count:
            raise ContractBroken(f"{self._function} returned {len(outputs)} outputs for {count} inputs")
        if (together := self._together(outputs)) is not None:
            return Encoded(together, [])
        encoded, failed = [], []
        for position, output in enumerate(outputs):
            try:
                encoded.append(self._encode_one(output, binary=position in binary))
            except ItemFailed as why:
                encoded.append(b"")
                failed.append((position, why.message, why.details))
        return Encoded(encoded, failed)

    def _together(self, outputs: Sequence[Any]) -> list[bytes] | None:
        """Encodes outputs of the commonest types in one go. None if one of them wants a closer look."""
        kinds = set(map(type, outputs))
        if kinds != {str} and (self._text_only or not kinds <= COMMON):
            return None
        try:
            encoded = list(map(_encode_plain, outputs))
        except Exception:
            return None  # one of the outputs cannot be encoded; looking at each finds out which
        # NaN and infinity become null, so where there is a null, the outputs are looked at one by one. The letter n
        # is looked for first: one letter is found several times as fast as a word.
        whole = b"" if kinds == {str} else b"".join(encoded)
        return None if b"n" in whole and b"null" in whole else encoded

    def _listed(self, outputs: Any) -> Sequence[Any]:
        """Returns as a list the outputs of something that is no list, such as the rows of an array."""
        if isinstance(outputs, list) or type(outputs) is tuple:
            return outputs
        kind = type(outputs).__name__
        if isinstance(outputs, tuple):
            raise ContractBroken(f"{self._function} returned {kind}, a tuple of fields: {ONE_EACH}")
        rows = as_rows(outputs)
        if rows is not None:
            return rows
        raise ContractBroken(f"{self._function} returned {kind}, not a list: {_advice(outputs)}")

    def _encode_one(self, output: Any, *, binary: bool) -> bytes:
        tokens_used = None
        if isinstance(output, Output):
            output, tokens_used = output.value, output.tokens_used
        if isinstance(output, BaseException):
            kind = type(output).__name__
            raise ItemFailed(utf8(f"{self._function} returned {kind} for this input"), describe(output))
        if self._text_only and not isinstance(output, str):
            raise ItemFailed(
                f"{self._function} returned {type(output).__name__} for this input, and the model's output is"
                " set to text: return str, or set output to auto"
            )
        are_bytes = isinstance(output, bytes | bytearray | memoryview)
        if are_bytes and binary:
            return of_bytes(output, tokens_used)
        return with_note(self._json(output), tokens_used, are_bytes=are_bytes)

    def _json(self, output: Any) -> bytes:
        kind = type(output).__name__
        try:
            encoded = encode_anything(output)
            # msgspec writes null for NaN and infinity, so only an output with a null in it is searched for them.
            # The letter n is looked for first: one letter is found several times as fast as a word.
            unspeakable = not_finite(output) if b"n" in encoded and b"null" in encoded else ""
        except UnicodeEncodeError:
            raise ItemFailed(
                f"{self._function} returned text for this input that UTF-8 cannot hold: half of a surrogate pair"
            ) from None
        except _Strange as strange:
            inside = "" if strange.kind == kind else f" that holds {strange.kind}"
            raise ItemFailed(
                f"{self._function} returned {kind}{inside} for this input, which JSON cannot hold: return text,"
                " numbers, bytes, lists, dicts, arrays, dataclasses or pydantic models"
            ) from None
        except Exception as error:  # of the object's own conversion, or it is nested too deeply
            raise ItemFailed(
                f"{self._function} returned {kind} for this input, which could not be made JSON"
                f" ({type(error).__name__})",
                describe(error),
            ) from None
        if unspeakable:
            raise ItemFailed(
                f"{self._function} returned {unspeakable} for this input, which JSON cannot say:"
                " return None or a finite number in its place"
            )
        return encoded


class _Strange(Exception):
    """An object for which we know no form in JSON."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.kind = type(value).__name__


def as_plain(value: Any) -> Any:
    """Returns an object that msgspec cannot encode as one that it can."""
    if isinstance(value, str):  # a subclass, such as numpy's
        return str.__str__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, type):
        raise _Strange(value)
    convert = _conversion(value)
    if convert is not None:
        plain = convert()
        if type(plain) is type(value):
            return float(plain)  # numpy's long double says that it is a Python number, and gives itself
        return plain
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Sequence | Set):
        return list(value)
    raise _Strange(value)


def _conversion(value: Any) -> Callable[[], Any] | None:
    """Returns the object's own method that makes a plain Python object of it, if it has one."""
    # mypy cannot know what a foreign object's method takes and gives.
    if callable(tolist := getattr(value, "tolist", None)):  # numpy, torch, jax, pandas, array.array
        return tolist  # type: ignore[no-any-return]
    if callable(dump := getattr(value, "model_dump", None)):  # pydantic
        return partial(dump, mode="json")
    if hasattr(value, "__fields__") and callable(old := getattr(value, "dict", None)):  # pydantic before 2
        return old  # type: ignore[no-any-return]
    for name in ("numpy", "to_list"):  # tensorflow; polars
        if callable(convert := getattr(value, name, None)):
            return convert  # type: ignore[no-any-return]
    return None


encode_anything = msgspec.json.Encoder(enc_hook=as_plain).encode


def as_rows(outputs: Any) -> list[Any] | None:
    """Returns the rows of an array or tensor; None if it has none."""
    if isinstance(outputs, type | str | bytes | bytearray | memoryview):
        return None
    convert = getattr(outputs, "tolist", None) or getattr(outputs, "to_list", None)
    if callable(convert):
        rows = convert()
        return rows if isinstance(rows, list) else None
    array = getattr(outputs, "numpy", None)
    return as_rows(array()) if callable(array) else None


def not_finite(value: Any) -> str:
    """Returns "NaN" or "infinity", whichever is in the value first; empty if there is neither."""
    return _search(msgspec.to_builtins(value, enc_hook=as_plain))


def _search(value: Any) -> str:
    match value:
        case float():
            return "" if isfinite(value) else "NaN" if value != value else "infinity"
        case dict():
            return next(filter(None, map(_search, value.values())), "")
        case list() | tuple() | set() | frozenset():
            return next(filter(None, map(_search, value)), "")
    return ""


def _advice(outputs: Any) -> str:
    if outputs is None:
        return f"is a `return` missing? {ONE_EACH}"
    if isinstance(outputs, Mapping):
        return f"{ONE_EACH}, such as a list of dicts"
    if hasattr(outputs, "to_dict"):
        return f'{ONE_EACH}, such as .to_dict("records") of a data frame'
    if hasattr(outputs, "__next__") or isinstance(outputs, Set):
        return f"{ONE_EACH}; list(…) makes one of an iterator"
    return ONE_EACH
