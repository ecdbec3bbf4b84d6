"""What of an exception's words may stand in a log: nothing that stands in an input too."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.adapters.backends.foreign_text import MOST_COMPARED, named, without_quotes


@pytest.mark.parametrize(
    ("words", "value", "logged"),
    [
        (
            "CUDA out of memory. Tried to allocate 2.00 GiB",
            "hello",
            "CUDA out of memory. Tried to allocate 2.00 GiB",
        ),
        ("cannot read Xyzzy-4711", "xyzzy-4711", "cannot read …"),
        ("no such key: key_secret_17", "secret", "no such key: …"),
        ("invalid literal for int(): '7'", "7", "invalid literal for int(): '…'"),
        ("bad value 3.14159", {"x": 3.14159}, "bad value …"),
        ("cannot read 'tab\tbed'", "tab\tbed", "cannot read '…'"),
        ("truncated: secre…", "secret", "truncated: ……"),
        ("ÄPFEL sind aus", "äpfel", "… sind aus"),
        ("STRASSE", "straße", "…"),
        ("", "a", ""),
    ],
)
def test_words_that_stand_in_an_input_too_are_left_out(words: str, value: object, logged: str) -> None:
    assert without_quotes(words, [b'"other"', msgspec.json.encode(value)]) == logged


PRINTED = st.text(st.characters(min_codepoint=33, max_codepoint=126))


@given(PRINTED, PRINTED, PRINTED)
def test_no_four_characters_in_a_row_are_left_of_an_input(value: str, before: str, after: str) -> None:
    payload = msgspec.json.encode(value)
    logged = without_quotes(before + value + after, [payload]).casefold()
    assert not any(value[n : n + 4].casefold() in logged for n in range(len(value) - 3))


def test_of_a_batch_that_is_too_large_to_compare_nothing_is_logged() -> None:
    assert without_quotes("anything", [b'"%b"' % (b"x" * MOST_COMPARED)]) == "…"


def test_an_exception_is_named_once_and_one_that_cannot_speak_is_named_too() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert named(ValueError, "no") == "ValueError: no"
    assert named(ValueError, "") == "ValueError"
    assert named(Mute, Mute()) == "Mute: (its message could not be read)"
