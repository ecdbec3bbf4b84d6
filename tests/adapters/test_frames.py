from itertools import pairwise

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.adapters.backends.frames import (
    LARGEST,
    ROOMY,
    BadFrame,
    Done,
    Inbox,
    Work,
    pack,
    pack_in_pieces,
)

payloads = st.lists(st.one_of(st.binary(max_size=50), st.just(b"x" * ROOMY)), max_size=3)


def fill(inbox: Inbox[Work], piece: bytes) -> list[Work]:
    messages = []
    while piece:
        room = inbox.room()
        count = min(len(room), len(piece))
        room[:count] = piece[:count]
        messages += inbox.filled(count)
        piece = piece[count:]
    return messages


def inbox() -> Inbox[Work]:
    return Inbox(msgspec.msgpack.Decoder(Work))


@settings(deadline=None)
@given(st.lists(payloads, max_size=5), st.data())
def test_messages_come_out_whole_and_in_order_however_they_are_cut(
    batches: list[list[bytes]], data: st.DataObject
) -> None:
    sent = [Work(n, b"{}", inputs) for n, inputs in enumerate(batches)]
    stream = b"".join(map(pack, sent))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    box = inbox()

    received = [
        message
        for start, end in pairwise([0, *cuts, len(stream)])
        for message in fill(box, stream[start:end])
    ]

    assert received == sent


@given(payloads, st.binary(max_size=10))
def test_a_frame_in_pieces_says_the_same(inputs: list[bytes], parameters: bytes) -> None:
    work = Work(7, parameters, inputs)
    assert fill(inbox(), b"".join(pack_in_pieces(work))) == fill(inbox(), bytes(pack(work))) == [work]


def test_the_room_grows_to_a_large_frame_and_shrinks_after_it() -> None:
    box = inbox()
    frame = bytes(pack(Work(1, b"", [b"x" * 4 * ROOMY])))

    fill(box, frame[:100])
    assert len(box.room()) == len(frame) - 100
    fill(box, frame[100:])
    assert len(box.room()) == ROOMY


@pytest.mark.parametrize(
    "garbage",
    [(LARGEST + 1).to_bytes(4, "big"), b"\x00\x00\x00\x03abc", bytes(pack(Done(1, [])))],
    ids=["too long", "not MessagePack", "another message"],
)
def test_what_is_not_a_frame_is_refused(garbage: bytes) -> None:
    with pytest.raises(BadFrame):
        fill(inbox(), garbage)
