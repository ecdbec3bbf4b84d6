"""What a process says is understood by an older one, and it understands a newer one."""

from dataclasses import asdict
from typing import Any

import before_0_1_0 as before
import msgspec
import pytest
from msgspec import json, msgpack, structs
from recorded_kit import PARENT, READERS, agrees, plain, said_in_registry

from penstock.cluster.announcements import announcement_of, model_of
from penstock.config import Config, Model
from penstock.types import Accepted, Batch, Outcome, Reason, TaskStatus, Traced
from penstock.words.announcements import ModelAnnouncement, read_announcement
from penstock.words.basics import FORMAT, VERSION, Garbled
from penstock.words.envelopes import decode_envelope, encode_envelope
from penstock.words.heartbeats import (
    BatcherHeartbeat,
    GatewayHeartbeat,
    Heartbeat,
    LoadReport,
    SlotReport,
    WorkerHeartbeat,
)
from penstock.words.messages import (
    Answers,
    Departed,
    Dispatch,
    Ending,
    Failed,
    Finished,
    ItemFailure,
    Message,
    Notice,
    Question,
    Told,
    Tried,
    decode,
    decode_execution,
    encode,
    encode_dispatch,
    encode_execution,
    member_of,
)
from penstock.words.slot_name import SlotName

# ---- what is said to an older process ----------------------------------------------------------------------

TRACED = Accepted(
    "key", "model", b'"x"', 1.0, 2.0, 3.0, "mine", b'{"a":1}', "acme", 1, 2.0, 3, PARENT, "vendor=1", task=True,
    gateway="gateway",
)  # fmt: skip
PLAIN = Accepted("key", "model", b'"x"', 1.0, 2.0, 3.0, "key", length=3, gateway="gateway")
NOW = 1.5


def batch_of(*requests: Accepted) -> Batch:
    return Batch(7, "model", b'{"a":1}', [*requests], Reason.FULL, 0.0, limit=3.0)


TRIED = Tried(0.5, "BACKEND_CRASHED", "it died", "worker", 3)
MESSAGES: list[Message] = [
    Answers(["k"], [b"1"], "worker", 7, 3, 0.2, "v1", "due", 0.1, [TRIED]),
    Failed(
        [Ending(["a", "b"], Outcome.EXPIRED, "DEADLINE_EXCEEDED", "too late", "", 1.5, [TRIED], 0.3, 0.2)]
    ),
    Notice("task", TaskStatus.SUCCESS, "CODE"),
    Finished(
        "slot", 7, 3, 0.2, "v1", executed=4, failed=[ItemFailure(0, "BACKEND_FAILED", "no", "why")], padding=1
    ),
    Question("gateway", "mine", 3, "model"),
    Told("gateway", "mine", b"{}"),
    Departed("workers", "worker"),
]


def test_an_older_batcher_reads_what_a_gateway_sends() -> None:
    envelope = before.read_envelope(encode_envelope("gateway", [TRACED, PLAIN], ["gone"], NOW))
    assert (envelope.gateway, envelope.sent, envelope.withdrawn) == ("gateway", NOW, ["gone"])
    for wire, request in zip(envelope.requests, (TRACED, PLAIN), strict=True):
        assert (wire.expires_in, wire.deadline_in) == (0.5, 1.5)
        for name in {*wire.__struct_fields__} - {"expires_in", "deadline_in"}:
            assert getattr(wire, name) == getattr(request, name)


def test_an_older_worker_reads_what_a_batcher_sends() -> None:
    members = [member_of(TRACED, "acme/mine"), member_of(PLAIN, "")]
    dispatch = before.read_message(encode_dispatch(batch_of(TRACED, PLAIN), "batcher", "w/model/0", members))
    assert dispatch == before.Dispatch(
        7, "batcher", "w/model/0", "model", b'{"a":1}',
        [before.Member("key", "gateway", b'"x"', "acme/mine", "acme"), before.Member("key", "gateway", b'"x"', "")],
        3.0,
    )  # fmt: skip


def test_an_older_worker_reads_a_batch_that_is_traced_and_knows_only_the_traces_of_its_members() -> None:
    members = [member_of(TRACED, "acme/mine")]
    batch = batch_of(TRACED)
    plainly = before.read_message(encode_dispatch(batch, "batcher", "w/model/0", members))
    batch.traced = Traced(PARENT, "vendor=1")
    assert before.read_message(encode_dispatch(batch, "batcher", "w/model/0", members)) == plainly


def test_where_there_is_nothing_new_to_say_the_bytes_are_the_older_ones() -> None:
    wire = before.WireRequest("key", "model", b'"x"', b"", "", 0, 1.0, 3, "key", None, 0.5, 1.5, False)
    envelope = before.Envelope("gateway", NOW, [wire], [])
    assert encode_envelope("gateway", [PLAIN], [], NOW) == VERSION + msgpack.encode(envelope)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_an_older_process_reads_every_other_message(message: Message) -> None:
    assert agrees(plain(before.read_message(encode(message))), plain(message))


def test_an_older_gateway_reads_how_a_task_was_executed() -> None:
    said = encode_execution("worker", 7, 3, 0.2, "v1")
    assert before.read_execution(said) == before.Executed("worker", 7, 3, 0.2, "v1")


SLOT = SlotReport(
    model="m", status="healthy", state="idle", first_batch_seconds=0.1, utilization=0.5, pressure=0.1, in_flight=3,
    batches=7, busy_seconds=1.5, relative_service_time=None, restarts=1, version="7", last_error="why",
)  # fmt: skip
LOAD = LoadReport(
    queue_depth=3, requests_per_second=2.5, capacity_rps=9.0, warning_depth=1.0, critical_depth=2.0,
    workers_healthy=2, backlog_seconds=0.1, padded_share=0.1, max_batch=8,
    service_curve=[(1.0, 0.1)],
)  # fmt: skip
HEARTBEATS: dict[str, Heartbeat] = {
    "gateways": GatewayHeartbeat(host="h", pid=1, parent=2, admin="http://h:9000", waiting=3, ledger=True),
    "batchers": BatcherHeartbeat(host="h", pid=1, parent=2, draining=True, shards=16, models={"m": LOAD}),
    "workers": WorkerHeartbeat(host="h", pid=1, slots={SlotName("w", "m", 0).text: SLOT}),
}


@pytest.mark.parametrize("kind", READERS)
def test_an_older_process_reads_every_heartbeat_and_finds_what_it_looks_for(kind: str) -> None:
    said = before.read_heartbeat(json.encode(HEARTBEATS[kind]))
    older = {name for _, text in said_in_registry(kind) for name in before.read_heartbeat(text)}
    assert older <= {*said}
    for inside, own in (("slots", SLOT), ("models", LOAD)):
        for row in said.get(inside, {}).values():
            found = [
                each for _, text in said_in_registry(kind) for each in json.decode(text)[inside].values()
            ]
            assert {*found[0]} <= {*row} == {*own.__struct_fields__}


def test_an_older_process_reads_every_announcement_as_it_read_its_own() -> None:
    """So an older batcher does not take a model for another one because a newer worker announces it."""
    config = Config(models={"answer": Model("app.py:answer", max_batch=8, version="7")})
    said = before.read_announcement(json.encode(announcement_of(config, "answer", True, ["shout"])))
    assert said in [before.read_announcement(text) for _, text in said_in_registry("models")]


# ---- what a newer process says -----------------------------------------------------------------------------

NEW = ["something", {"new": [1]}]


def longer(body: bytes) -> bytes:
    """The same from a release with more fields: in the message itself, and in the structs that it lists."""

    def grown(value: Any, level: int) -> Any:
        if not isinstance(value, list) or level > 2:
            return value
        inside = [grown(each, level + 1) for each in value]
        return inside if level == 1 else [*inside, *NEW]

    return VERSION + msgpack.encode(grown(msgpack.decode(body[1:]), 0))


def test_a_newer_envelope_is_understood() -> None:
    body = encode_envelope("gateway", [TRACED, TRACED], ["gone"], NOW)
    assert longer(body).count(b"something") == 3
    assert decode_envelope(longer(body)) == decode_envelope(body)


def test_a_newer_message_is_understood() -> None:
    batch = batch_of(TRACED)
    batch.traced = Traced(PARENT, "vendor=1")  # so that the message has all the fields that there are
    history = [TRIED.attempt(NOW)]
    dispatch = encode_dispatch(batch, "b", "w/m/0", [member_of(TRACED, "acme/mine")], history)
    assert (
        longer(dispatch).count(b"something") == 3
    )  # in the message, in its member, and in the earlier attempt
    for body in (*map(encode, MESSAGES), dispatch):
        assert decode(longer(body)) == decode(body)
    said = encode_execution("worker", 7, 3, 0.2, "v1")
    assert asdict(decode_execution(longer(said))) == asdict(decode_execution(said))


@pytest.mark.parametrize("kind", READERS)
def test_a_newer_heartbeat_is_understood(kind: str) -> None:
    newer = {**msgspec.to_builtins(HEARTBEATS[kind]), "something": NEW}
    for inside in ("slots", "models"):
        for row in newer.get(inside, {}).values():
            row["something"] = NEW
    assert READERS[kind](json.encode(newer)) == HEARTBEATS[kind]


def test_a_newer_announcement_is_understood() -> None:
    said = ModelAnnouncement(max_batch=8, parameter_names=["a"])
    assert read_announcement(json.encode({**msgspec.to_builtins(said), "something": NEW})) == said


def test_what_is_said_in_a_later_format_is_not_guessed_at() -> None:
    later = json.encode({"host": "h", "format": FORMAT + 1})
    for read in (*READERS.values(), read_announcement):
        assert read(json.encode({"host": "h", "format": FORMAT}))
        with pytest.raises(Garbled, match="format"):
            read(later)


# ---- the same words in both places ---------------------------------------------------------------------------


def test_an_announcement_that_says_nothing_is_a_model_that_sets_nothing() -> None:
    assert model_of(ModelAnnouncement()) == Model("redis", input="json")


def test_a_member_of_a_batch_is_the_request_that_it_was() -> None:
    for request in (
        TRACED,
        PLAIN,
        structs.replace(TRACED, tracestate=None),
        structs.replace(PLAIN, request_id="x"),
    ):
        body = encode_dispatch(batch_of(request), "b", "w/m/0", [member_of(request, "")])
        [member] = decode(body).members  # type: ignore[union-attr]
        made = member.request("model", NOW)
        for name in ("key", "model", "input", "request_id", "tenant", "traceparent", "tracestate"):
            assert getattr(made, name) == getattr(request, name)


def test_a_batch_is_of_the_trace_that_it_was() -> None:
    batch = batch_of(TRACED)
    for traced in (None, Traced(PARENT, None), Traced(PARENT, "vendor=1")):
        batch.traced = traced
        said = decode(encode_dispatch(batch, "b", "w/m/0", [member_of(TRACED, "")]))
        assert isinstance(said, Dispatch)
        heard = said.traced
        assert (heard and structs.astuple(heard)) == (traced and structs.astuple(traced))


def test_a_batch_that_is_handed_ahead_says_so_and_an_older_worker_keeps_it_like_any_other() -> None:
    members, batch = [member_of(PLAIN, "")], batch_of(PLAIN)
    plainly = before.read_message(encode_dispatch(batch, "batcher", "w/model/0", members))
    batch.ahead = True
    said = encode_dispatch(batch, "batcher", "w/model/0", members)
    assert before.read_message(said) == plainly
    assert isinstance(heard := decode(said), Dispatch)
    assert (heard.ahead, heard.traced) == (True, None)


def test_a_slots_name_is_read_as_it_was_written() -> None:
    name = SlotName("worker-1-f00", "org.model", 12)
    assert (name.text, SlotName.parse(name.text)) == ("worker-1-f00/org.model/12", name)
    for text in ("", "w", "w/m", "w/m/", "/m/0", "w//0", "w/m/x", "w/m/0/1", "w/m/²"):
        assert SlotName.parse(text) is None
