"""A large body is looked through in steps, and each looks at little of it."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, cast

import pytest
from msgspec.structs import astuple

from penstock.doors import clean, depth, steps
from penstock.doors.door import AskingDoor, HttpLimits, Inside
from penstock.doors.inputs import inputs_of
from penstock.doors.large import LARGE
from penstock.doors.native import Inference, ShortInference
from penstock.doors.plain import is_plain
from penstock.doors.steps import PIECE, Steps
from penstock.doors.tei import Embed
from penstock.errors import Unacceptable
from penstock.ports import Gateway
from penstock.types import Ask

SIZE = 2**20
# Whether numbers could be huge may be looked at before and after strings are left out, and a number may have begun
# in the piece before.
MOST = 4 * PIECE
WHOLE = {"pieces", "check_depth", "check_numbers", "clean_controls", "is_deeper"}  # these only cut it
WHOLE |= {"_may_have_huge", "_may_be_deeper", "_without_controls"}


def shape(unit: bytes, before: bytes = b"", after: bytes = b"") -> bytes:
    return b"[" + before + unit * (SIZE // len(unit)) + after + b"]"


SHAPES = {
    "brackets": shape(b"[],", after=b"0"),
    "deep": shape(b"[" * 60 + b"]" * 60 + b",", after=b"0"),
    "quotes": shape(b'"",', after=b"0"),
    "brackets in strings": shape(b'["["],', before=b"1e100,", after=b"0"),
    "numbers": shape(b"1e100,", after=b"0"),
    "huge amid brackets": shape(b"[],", before=b"1e100,", after=b"1e999"),
    "one number": shape(b"0", before=b"0.", after=b"1"),
    "one integer": shape(b"9"),
    "backslashes": shape(b"\\\\", before=b'"', after=b'"'),
    "escapes": shape(b"\\u000a", before=b'"', after=b'"'),
    "controls": shape(b"\\u000aaaaaaaaaaaaaaaaaaaaaaaaaa\\u0001", before=b'"', after=b'"'),
    "not ASCII": shape(b"\xc2\xa0", before=b'"', after=b'\xc2\x85"'),
}


class AnyKind:
    """A gateway of one model, as far as the reader asks it."""

    def __init__(self) -> None:
        self.kinds = {None: "json"}

    def kind_of(self, model: str | None) -> str:
        return "json"


def inside(controls: str) -> Inside:
    return Inside(cast(Gateway, AnyKind()), HttpLimits(control_characters=controls))


@contextmanager
def looking() -> Iterator[Counter[str]]:
    """How many bytes each function that looks at pieces was called with."""
    sizes: Counter[str] = Counter()
    files = {module.__file__ for module in (clean, depth, steps)}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename in files and code.co_name not in WHOLE:
            given = code.co_varnames[: code.co_argcount]
            found = (frame.f_locals.get(name) for name in given)
            sizes[code.co_name] += sum(len(each) for each in found if isinstance(each, bytes))

    sys.setprofile(note)
    try:
        yield sizes
    finally:
        sys.setprofile(None)


def walk(all_steps: Steps[object], after_each: Callable[[], None]) -> None:
    try:
        while True:
            next(all_steps)
            after_each()
    except (StopIteration, Unacceptable):
        after_each()


@pytest.mark.parametrize("controls", ["refuse", "strip"])
@pytest.mark.parametrize("shape", SHAPES)
def test_no_step_looks_at_more_than_a_few_pieces(shape: str, controls: str) -> None:
    inputs = inputs_of(inside(controls))
    look = inputs.check_in_steps(SHAPES[shape], None, ascii_only=SHAPES[shape].isascii())
    most_in_a_step = counted = 0
    with looking() as sizes:

        def after_each() -> None:
            nonlocal most_in_a_step, counted
            most_in_a_step = max(most_in_a_step, *sizes.values(), 0)
            counted += 1
            sizes.clear()

        walk(look, after_each)
    assert 0 < most_in_a_step <= MOST
    assert counted > 1


@pytest.mark.parametrize("make", [Inference, ShortInference])
def test_a_body_is_the_same_ask_at_once_and_in_steps(make: Callable[[Inside], AskingDoor]) -> None:
    door = make(inside("strip"))
    for unit in (b'"\\u0001a",', b"[1.5e100],", '"\x85é",'.encode()):
        body = b'{"input": [' + unit * (4 * PIECE // len(unit)) + b"0]}"
        at_once = door.read_one(body)
        [in_steps] = steps.at_once(door.read(body, {}))
        assert isinstance(at_once, Ask)
        assert astuple(in_steps) == astuple(at_once)


def test_many_texts_in_one_body_are_looked_at_one_after_the_other() -> None:
    texts = b",".join([b'"' + b"\\u0001" * 1000 + b'"'] * 100)
    walked = 0

    def after_each() -> None:
        nonlocal walked
        walked += 1

    walk(Embed(inside("strip")).read(b'{"inputs": [' + texts + b"]}", {}), after_each)
    assert walked > 100


def test_a_body_that_does_not_wait_for_its_turn_is_one_piece() -> None:
    assert LARGE <= PIECE


@pytest.mark.parametrize(
    ("body", "plain"),
    [
        (b'{"input": "%b"}' % (b"x" * 100_000), True),
        (b'{"input": "%b", "model": "m"}' % (b"[{1," * 100_000), True),  # within a text they are letters
        (b'{"input": "%b"}' % (b"\\n" * 100_000), False),
        (b'{"input": "%b"}' % ("é" * 100_000).encode(), False),
        (b'{"input": "%b' % (b"x" * 100_000), False),
        (b'{"input": [%b]}' % (b'"x",' * 100_000), False),
        (b'{"input": [%b]}' % (b"1," * 100_000), False),
        (b"[" * 100_000, False),
    ],
)
def test_only_a_body_of_a_few_plain_texts_is_looked_through_at_once(body: bytes, plain: bool) -> None:
    assert is_plain(body) is plain
