"""The plan of a run: what is sent and when, fixed before the first request goes out. `cli/bench.py` makes one of
the command's options, and `load.py` carries it out. Nothing is sent here; a trace to replay is read from its
file."""

import json
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from penstock.bench.options import Server
from penstock.load.traffic import Traffic, make_schedule

CHARACTERS_PER_TOKEN = 4  # about as in English text
QUOTES = 2  # the bytes around a text in JSON: a recorded size counts them
# Begins each made-up input that is long enough, so that all differ and no cache answers for the model.
_NUMBER = b"%08x"


@dataclass(slots=True, frozen=True)
class Template:
    """A request as bytes. In a numbered one, the number goes between the two halves."""

    before: bytes
    after: bytes = b""
    numbered: bool = False


@dataclass(slots=True, frozen=True)
class Plan:
    """All requests of a run."""

    times: "array[float]"
    choice: "array[int]"  # for each request, the index of its template
    templates: Sequence[Template]
    warmup: float  # seconds
    duration: float  # seconds, with the warm-up
    timeout: float | None = None  # seconds; an answer after it is late
    model: str | None = None
    source: str = ""  # the source of a trace, which a report must name

    def request(self, index: int) -> bytes:
        """Returns the bytes of a request, by its index in the schedule."""
        template = self.templates[self.choice[index]]
        if template.numbered:
            return template.before + _NUMBER % (index & 0xFFFFFFFF) + template.after
        return template.before


@dataclass(slots=True, frozen=True)
class Shape(Traffic):
    """The traffic that was asked for, and how its requests look."""

    duration: float = 30.0  # seconds, measured
    payload_size: int | None = None  # characters; by default 2048, or what the trace says
    payload: object = None  # a JSON value that every request sends instead
    timeout_ms: int | None = None
    model: str | None = None
    clients: tuple[tuple[str, float], ...] = ()  # client_id and weight


def make_plan(shape: Shape, server: Server) -> Plan:
    """Returns the plan of a run with traffic of this shape."""
    schedule = make_schedule(shape)
    lengths: Sequence[int] = ()
    if shape.payload is None and shape.payload_size is None:
        if schedule.sizes is not None:
            lengths = [max(0, size - QUOTES) for size in schedule.sizes]
        elif schedule.tokens is not None:
            lengths = [count * CHARACTERS_PER_TOKEN for count in schedule.tokens]
    askers = Random(f"{shape.seed}/clients")  # random numbers of their own, so that the times stay the same
    choice, templates = _templates(shape, server, lengths, len(schedule.times), askers)
    return Plan(
        schedule.times,
        choice,
        templates,
        shape.warmup,
        shape.warmup + schedule.measured,
        shape.timeout_ms / 1000 if shape.timeout_ms else None,
        shape.model,
        schedule.source,
    )


def _templates(
    shape: Shape, server: Server, lengths: Sequence[int], count: int, rng: Random
) -> "tuple[array[int], list[Template]]":
    """Returns one template for each client and length that occurs, and for each request the index of its
    template."""
    ids: list[str | None] = [client for client, _ in shape.clients] or [None]
    weights = [weight for _, weight in shape.clients] or [1.0]
    drawn = rng.choices(ids, weights, k=count) if len(ids) > 1 else ids * count
    fixed = 2048 if shape.payload_size is None else shape.payload_size
    known: dict[tuple[str | None, int], int] = {}
    templates: list[Template] = []
    choice = array("L")
    for index, client in enumerate(drawn):
        length = lengths[index] if lengths else fixed
        if (client, length) not in known:
            known[client, length] = len(templates)
            templates.append(_template(shape, server, client, length))
        choice.append(known[client, length])
    return choice, templates


def _template(shape: Shape, server: Server, client: str | None, length: int) -> Template:
    width = len(_NUMBER % 0)
    numbered = shape.payload is None and length >= width
    fields: dict[str, object] = {}
    if shape.model is not None:
        fields["model"] = shape.model
    if client is not None:
        fields["client_id"] = client
    if shape.timeout_ms is not None:
        fields["timeout_ms"] = shape.timeout_ms
    rest = json.dumps(fields, separators=(",", ":"))[1:].encode()
    rest = b"," + rest if fields else rest
    if shape.payload is not None:
        value = json.dumps(shape.payload, ensure_ascii=False, separators=(",", ":")).encode()
    else:
        value = b'"' + filler(length - width if numbered else length) + b'"'
    opening, value = (b'{"input":"', value[1:]) if numbered else (b'{"input":', value)
    size = len(opening) + (width if numbered else 0) + len(value) + len(rest)
    head = (
        f"POST {server.path} HTTP/1.1\r\nHost: {server.authority}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {size}\r\n\r\n"
    ).encode()
    if numbered:
        return Template(head + opening, value + rest, numbered=True)
    return Template(head + opening + value + rest)


def filler(length: int) -> bytes:
    """Returns a text of that many plain characters."""
    words = b" the water waits behind the gate until the turbine has room for it;"
    return (words * (length // len(words) + 1))[:length]
