"""Spans of waits and of batches, noted where batches are formed: an observer of each batcher and of `penstock
serve`, which `roles/traces.py` makes.

    request ─┬─ wait {model}        from its arrival until its batch goes; again for each attempt
             └── process {model}    the batch, below the wait of its first member, with a link to each member's wait
                  └── run {model}   on the worker: here, or where the worker is (`run_spans.py`)

A batch is in the trace of its first member that is traced. The waits of the others have a link to the batch. If
more members are traced than a span may have links, the batch has several spans, and the run is below the first. All
of it is written when the batch has ended.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import Random
from typing import NamedTuple

from penstock.adapters.tracing.context import SAMPLED, Context, Ids, context_of
from penstock.adapters.tracing.exporter import Exporter, Wall
from penstock.adapters.tracing.otlp import (
    Kind,
    TextAttribute,
    Value,
    attribute,
    attributes,
    link,
    span,
    title,
)
from penstock.adapters.tracing.run_spans import Run, Runner, below, run_of
from penstock.ports import BatchObserver
from penstock.types import Batch, Execution, Failure, Traced

MOST_LINKS = 128  # of one span, as OpenTelemetry has it

# A member that is traced: its traceparent and tracestate, its request's id, its tier, and when it began to wait.
Member = tuple[str, str | None, str, int, float]

_ID = TextAttribute("penstock.request_id")


class OpenBatch(Traced, eq=False, kw_only=True):
    """A batch on its way, which is recorded."""

    own: Context
    members: Sequence[Member]
    began: float


class _Ended(NamedTuple):
    """A batch that has ended; implements `exporter.Record`."""

    of: "BatchSpans"
    model: str
    size: int
    reason: str
    attempt: int
    worker: str
    code: str  # of its failure; empty if it has outputs
    own: Context
    state: str | None
    members: Sequence[Member]
    began: float
    ended: float
    run: Run | None

    @property
    def spans(self) -> int:
        parts = -(-len(self.members) // self.of.most_links)
        return len(self.members) + parts + (self.run is not None)

    def write(self, wall: Wall) -> list[bytes]:
        spans, contexts = self._waits(wall)
        parent, most = contexts[0].span, self.of.most_links
        parts = range(0, len(contexts), most)
        told = _processed(self.model, self.size, self.reason, self.attempt, self.worker, self.code)
        named, start, end = title(f"process {self.model}", Kind.CONSUMER), wall(self.began), wall(self.ended)
        for at in parts:
            own = Context(self.own.trace, self.of.ids.span()) if at else self.own
            part = attribute("penstock.batch.part", f"{at // most + 1}/{len(parts)}") if parts[1:] else b""
            links = [link(each) for each in contexts[at : at + most]]
            spans.append(
                span(
                    own, parent, named, start, end, told + part, state=self.state, links=links,
                    failed=bool(self.code),
                )
            )  # fmt: skip
        return spans if self.run is None else spans + self.run.write(wall)

    def _waits(self, wall: Wall) -> tuple[list[bytes], list[Context]]:
        """Returns the waits of the members, and their contexts."""
        spans, contexts = [], []
        ids, tiers, remote = self.of.ids, self.of.tiers, self.of.runners is None
        named, end, to_batch = title(f"wait {self.model}", Kind.PRODUCER), wall(self.began), [link(self.own)]
        for traceparent, state, request_id, tier, since in self.members:
            above = context_of(traceparent)
            if above is None:
                continue
            own = Context(above.trace, ids.span())
            contexts.append(own)
            told = _waited(self.model, tiers.get(tier, str(tier)), self.attempt) + _ID(request_id)
            links = to_batch if above.trace != self.own.trace else ()
            spans.append(
                span(own, above.span, named, wall(since), end, told, state=state, links=links, remote=remote)
            )
        return spans, contexts


class BatchSpans(BatchObserver):
    """The observer that notes waits and batches, and in one process with its workers the runs too."""

    def __init__(
        self,
        exporter: Exporter,
        tiers: Sequence[str],
        runners: Mapping[str, Runner] | None = None,
        most_links: int = MOST_LINKS,
    ) -> None:
        """`tiers`: their names, by rank. `runners`: what runs the batches, by model; None: another process does,
        and records it."""
        self._exporter, self.runners, self.most_links = exporter, runners, most_links
        self.tiers = dict(enumerate(tiers))
        self.ids = Ids()  # used by the exporter's thread alone
        self._draw = Random().getrandbits

    def handed(self, batch: Batch, now: float) -> None:
        said = [request for request in batch.requests if request.traceparent is not None]
        if not said:
            batch.traced = None  # the batch may be a part of one that was traced
            return
        # A retry waits since the batch before it has failed.
        since = batch.sealed if batch.retry else None
        members = [
            (parent, each.tracestate, each.request_id, each.tier, each.arrival if since is None else since)
            for each in said
            if (parent := each.traceparent) is not None and parent[54:55] in SAMPLED
        ]
        while members and (above := context_of(members[0][0])) is None:
            del members[0]
        batch.traced = self._open(above, members, now) if members and above is not None else None

    def _open(self, above: Context, members: Sequence[Member], now: float) -> OpenBatch:
        own = Context(above.trace, (self._draw(64) or 1).to_bytes(8, "big"))
        told = own.traceparent if self.runners is None else below(own, self._draw(64))
        return OpenBatch(told, members[0][1], own=own, members=members, began=now)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        traced = batch.traced
        if not isinstance(traced, OpenBatch):
            return
        own, state, run = traced.own, traced.tracestate, None
        if self.runners is not None:
            runner = self.runners[batch.model]
            run = run_of(runner, batch, traced.traceparent, own, state, execution, failure)
        self._exporter.add(
            _Ended(
                self, batch.model, batch.size, batch.reason.value, batch.attempt, execution.worker,
                "" if failure is None else failure.code, own, state, traced.members, traced.began,
                execution.ended, run,
            )
        )  # fmt: skip


# The functions below write attributes that go together. Few are different, so that most are written once.


@lru_cache(4096)
def _waited(model: str, tier: str, attempt: int) -> bytes:
    told: dict[str, Value] = {
        "messaging.system": "penstock",
        "messaging.operation.name": "wait",
        "messaging.operation.type": "send",
        "messaging.destination.name": model,
        "penstock.tier": tier,
    }
    return attributes(told | {"penstock.attempt": attempt} if attempt > 1 else told)


@lru_cache(4096)
def _processed(model: str, size: int, reason: str, attempt: int, worker: str, code: str) -> bytes:
    told: dict[str, Value] = {
        "messaging.system": "penstock",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": model,
        "messaging.batch.message_count": size,
        "penstock.batch.reason": reason,
        "penstock.attempt": attempt,
        "penstock.worker": worker,
    }
    return attributes(told | {"error.type": code} if code else told)
