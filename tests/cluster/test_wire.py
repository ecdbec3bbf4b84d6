import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.types import Failure, Outcome, Request, TaskStatus
from penstock.words.basics import VERSION, Garbled
from penstock.words.envelopes import decode_envelope, encode_envelope
from penstock.words.messages import (
    Answers,
    Dispatch,
    Ending,
    Failed,
    Finished,
    Look,
    Member,
    Message,
    Notice,
    Seen,
    decode,
    encode,
)

MESSAGES: list[Message] = [
    Dispatch(7, "batcher", "slot", "model", b"{}", [Member("k", "gateway", b'"x"', "")]),
    Answers(["k"], [b"1"], "worker", 7, 3, 0.2, "v1"),
    Failed([Ending(["a", "b"], Outcome.EXPIRED, "DEADLINE_EXCEEDED", "too late", "", 1.5)]),
    Notice("task", TaskStatus.SUCCESS),
    Look("gateway", 7, hour=True),
    Seen("batcher", 7, b"report"),
    Finished("slot", 7, 3, 0.2, "v1"),
    Finished("slot", 7, 0, 0.2, "", "BACKEND_FAILED", "no", "why", True),
]

requests = st.builds(
    Request,
    key=st.text(),
    model=st.text(),
    input=st.binary(),
    arrival=st.floats(0, 1e6),
    expires=st.floats(0, 1e6),
    deadline=st.floats(0, 1e6),
    request_id=st.text(),
    parameters=st.binary(),
    tenant=st.text(),
    tier=st.integers(0, 9),
    cost=st.floats(0, 1e9),
    length=st.integers(0, 1 << 30),
    traceparent=st.none() | st.text(),
    task=st.booleans(),
)


@given(st.lists(requests, max_size=5), st.lists(st.text(), max_size=3), st.floats(0, 1e6))
def test_an_envelope_arrives_as_it_was_sent_with_budgets_for_times(
    sent: list[Request], withdrawn: list[str], now: float
) -> None:
    envelope = decode_envelope(encode_envelope("gateway", sent, withdrawn, now))
    assert (envelope.gateway, envelope.sent, envelope.withdrawn) == ("gateway", now, withdrawn)
    assert len(envelope.requests) == len(sent)
    for wire, request in zip(envelope.requests, sent, strict=True):
        assert wire.expires_in == request.expires - now
        assert wire.deadline_in == request.deadline - now
        for name in set(wire.__struct_fields__) - {"expires_in", "deadline_in"}:
            assert getattr(wire, name) == getattr(request, name)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_every_message_arrives_as_it_was_sent(message: Message) -> None:
    assert decode(encode(message)) == message


def test_a_shared_failure_is_one_again_at_the_other_end() -> None:
    ending = Ending(["k"], Outcome.FAILED, "SERVICE_OVERLOADED", "full", "", 2.0)
    assert ending.failure == Failure("SERVICE_OVERLOADED", "full", retry_after=2.0)
    assert Finished("s", 1, 3, 0.1, "").failure is None
    assert Finished("s", 1, 0, 0.1, "", "X", "m", "d", True).failure == Failure("X", "m", "d", True)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_cut_short_anywhere_is_garbled_and_never_half_understood(message: Message) -> None:
    body = encode(message)
    for end in range(len(body)):
        with pytest.raises(Garbled):
            decode(body[:end])


@given(st.binary(max_size=60))
def test_garbage_raises_one_error_only(body: bytes) -> None:
    for read in (decode, decode_envelope):
        for attempt in (body, VERSION + body):
            try:
                read(attempt)
            except Garbled:
                pass


def test_another_version_is_not_guessed_at() -> None:
    body = b"\x02" + encode(MESSAGES[0])[1:]
    with pytest.raises(Garbled, match="version 2"):
        decode(body)


def test_a_field_that_a_newer_sender_added_is_skipped() -> None:
    newer = VERSION + msgspec.msgpack.encode(["t", "task", "SUCCESS", "", "something new"])
    assert decode(newer) == Notice("task", TaskStatus.SUCCESS)


def test_answers_that_do_not_match_their_keys_are_garbled() -> None:
    with pytest.raises(Garbled, match="differ"):
        decode(encode(Answers(["a", "b"], [b"1"], "worker", 7, 2, 0.2, "")))
