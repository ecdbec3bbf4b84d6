"""Forms with a file in them, however they are cut into pieces."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.openai_files.multipart import Form, boundary_of, read_form
from penstock.doors.steps import at_once
from penstock.errors import Malformed, Refused, Unacceptable, UnsupportedMedia

BOUNDARY = b"the-boundary"


def part(name: str, content: bytes, more: str = "") -> bytes:
    head = f'--{BOUNDARY.decode()}\r\nContent-Disposition: form-data; name="{name}"{more}\r\n\r\n'
    return head.encode() + content + b"\r\n"


def form(*parts: bytes) -> bytes:
    return b"".join(parts) + b"--" + BOUNDARY + b"--\r\n"


def read(body: Sequence[bytes]) -> Form:
    return at_once(read_form(body, BOUNDARY))


@given(st.binary(max_size=300), st.integers(0, 2**32), st.integers(1, 40))
def test_a_form_is_the_same_however_it_is_cut(content: bytes, seed: int, longest: int) -> None:
    chance = random.Random(seed)
    content = content.replace(b"--" + BOUNDARY, b"") + b"\r\n--the-boundar"
    body = form(part("purpose", b"batch"), part("file", content, '; filename="größe.jsonl"'))
    pieces = []
    while body:
        size = chance.randint(1, longest)
        pieces.append(body[:size])
        body = body[size:]
    found = read(pieces)
    assert found.values == {"purpose": "batch"}
    assert found.file is not None
    assert b"".join(found.file) == content
    assert found.file_name == "größe.jsonl"


def test_a_file_may_be_empty_or_missing() -> None:
    assert read([form(part("file", b"", '; filename="x"'))]).file == []
    assert read([form(part("purpose", b"batch"))]).file is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (b"", Malformed),
        (form()[:-5], Malformed),
        (form(part("a", b"1"), part("a", b"2")), Malformed),
        (form(part("file", b"1"), part("file", b"2")), Malformed),
        (form(*[part(f"a{n}", b"") for n in range(17)]), Malformed),
        (form(part("a", b"x" * 5000)), Unacceptable),
        (form(part("a", b"\xff")), Malformed),
        (form(part("a" * 5000, b"x")), Malformed),
        (b"--" + BOUNDARY + b"\r\nno head\r\n\r\nx\r\n--" + BOUNDARY + b"--", Malformed),
    ],
)
def test_a_form_that_is_none_is_refused(body: bytes, error: type[Refused]) -> None:
    with pytest.raises(error):
        read([body])


@pytest.mark.parametrize("pieces", [1, 7, 1000])
@given(st.binary(max_size=200))
def test_nothing_breaks_it(pieces: int, junk: bytes) -> None:
    body = form(part("purpose", b"batch"))
    for mixed in (junk, junk + body, body[:20] + junk + body[20:]):
        try:
            read([mixed[at : at + pieces] for at in range(0, len(mixed), pieces)])
        except Refused:
            pass


def test_the_boundary_is_in_the_head() -> None:
    assert boundary_of(b'multipart/form-data; boundary="a b"') == b"a b"
    for other in (None, b"application/json", b"multipart/form-data", b"\xff"):
        with pytest.raises(UnsupportedMedia):
            boundary_of(other)
    with pytest.raises(Malformed):
        boundary_of(b"multipart/form-data; boundary=" + b"x" * 71)
