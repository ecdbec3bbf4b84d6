"""Spans of waits and of batches, written where batches are formed.

    request ─┬─ wait {model}        from its arrival until its batch goes; again for each attempt
             └── process {model}    the batch, below the wait of its first member, with a link to each member's wait
                  └── run {model}   on the worker: here, or where the worker is (`run_spans.py`)

A batch is in the trace of its first member that is traced. The waits of the others have a link to the batch. If
more members are traced than a span may have links, the batch has several spans, and the first is the one that the
run is below.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from penstock.adapters.tracing.context import SAMPLED, Context, Ids, context_of
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.otlp import Kind, TextAttribute, attribute, attributes, link, span, title
from penstock.adapters.tracing.run_spans import Runner, run_span
from penstock.ports import BatchObserver
from penstock.types import Batch, Execution, Failure, Request, Traced

MOST_LINKS = 128  # of one span, as OpenTelemetry has it
SYSTEM = {"messaging.system": "penstock"}
WAITS = attributes(SYSTEM | {"messaging.operation.name": "wait", "messaging.operation.type": "send"})
PROCESSES = attributes(
    SYSTEM | {"messaging.operation.name": "process", "messaging.operation.type": "process"}
)


_ID = TextAttribute("penstock.request_id")


@lru_cache(4096)  # of few models, tiers and attempts
def _waits(model: str, tier: str, attempt: int) -> bytes:
    told = WAITS + attribute("messaging.destination.name", model) + attribute("penstock.tier", tier)
    return told + attribute("penstock.attempt", attempt) if attempt > 1 else told


class OpenBatch(Traced, eq=False):
    """A batch on its way, which is recorded."""

    own: Context
    parent: bytes
    links: list[bytes]
    began: float
    run: Context | None  # None: its worker is another process, and records the run itself


class BatchSpans(BatchObserver):
    def __init__(
        self,
        exporter: Exporter,
        tiers: Sequence[str],
        runners: Mapping[str, Runner] | None = None,
        most_links: int = MOST_LINKS,
    ) -> None:
        """`tiers`: their names, by rank. `runners`: what runs the batches, by model; None: another process does,
        and records it."""
        self._exporter, self._runners, self._most_links = exporter, runners, most_links
        self._tiers = dict(enumerate(tiers))
        self._ids = Ids()

    def handed(self, batch: Batch, now: float) -> None:
        for request in batch.requests:
            if request.traceparent is not None and request.traceparent[54:55] in SAMPLED:
                batch.traced = self._begin(batch, now)
                return
        batch.traced = None  # it may be the rest of one that was traced

    def _begin(self, batch: Batch, now: float) -> OpenBatch | None:
        members: list[tuple[Request, Context]] = []
        for request in batch.requests:
            said = request.traceparent
            if said is not None and said[54:55] in SAMPLED and (above := context_of(said)) is not None:
                members.append((request, above))
        if not members:
            return None
        first, above = members[0]
        own = Context(above.trace, self._ids.span())
        waits = [Context(above.trace, self._ids.span()) for _, above in members]
        self._waited(batch, members, waits, own, now)
        run = None if self._runners is None else Context(own.trace, self._ids.span())
        return OpenBatch(
            (run or own).traceparent, first.tracestate, own=own, parent=waits[0].span,
            links=[link(wait) for wait in waits], began=now, run=run,
        )  # fmt: skip

    def _waited(
        self,
        batch: Batch,
        members: Sequence[tuple[Request, Context]],
        waits: Sequence[Context],
        own: Context,
        now: float,
    ) -> None:
        """Write the waits of the members of a batch. `own`: of the batch."""
        add, wall, tiers = self._exporter.add, self._exporter.wall, self._tiers
        named, end, remote = title(f"wait {batch.model}", Kind.PRODUCER), wall(now), self._runners is None
        to_batch = [link(own)]
        for (request, above), wait in zip(members, waits, strict=True):
            tier = tiers.get(request.tier, str(request.tier))
            told = _waits(batch.model, tier, batch.attempt) + _ID(request.request_id)
            # A retry waits since the batch before it has failed.
            start = wall(batch.sealed if batch.retry else request.arrival)
            links = to_batch if above.trace != own.trace else ()
            add(
                span(
                    wait,
                    above.span,
                    named,
                    start,
                    end,
                    told,
                    state=request.tracestate,
                    links=links,
                    remote=remote,
                )
            )

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        traced = batch.traced
        if not isinstance(traced, OpenBatch):
            return
        exporter, state = self._exporter, traced.tracestate
        told = [
            PROCESSES,
            attribute("messaging.destination.name", batch.model),
            attribute("messaging.batch.message_count", batch.size),
            attribute("penstock.batch.reason", batch.reason.value),
            attribute("penstock.attempt", batch.attempt),
            attribute("penstock.worker", execution.worker),
        ]
        if failure is not None:
            told.append(attribute("error.type", failure.code))
        start, end = exporter.wall(traced.began), exporter.wall(execution.ended)
        links, most = traced.links, self._most_links
        parts = range(0, len(links), most)
        for at in parts:
            own = traced.own if not at else Context(traced.own.trace, self._ids.span())
            part = [attribute("penstock.batch.part", f"{at // most + 1}/{len(parts)}")] if parts[1:] else []
            exporter.add(
                span(
                    own, traced.parent, title(f"process {batch.model}", Kind.CONSUMER), start, end,
                    b"".join((*told, *part)), state=state, links=links[at : at + most],
                    failed=failure is not None,
                )
            )  # fmt: skip
        if traced.run is not None and self._runners is not None:
            runner = self._runners[batch.model]
            exporter.add(
                run_span(
                    exporter, runner, batch, traced.run, traced.own.span, state, execution, failure
                )
            )  # fmt: skip
