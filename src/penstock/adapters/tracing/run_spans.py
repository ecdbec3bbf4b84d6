"""Spans of batches on their workers. A worker in a process of its own tells `RunSpans`; in one process with its
batcher, `batch_spans.py` writes them too."""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.adapters.tracing.context import Context, Ids, context_of, is_sampled
from penstock.adapters.tracing.exporter import Exporter
from penstock.adapters.tracing.otlp import Kind, attribute, span, title
from penstock.ports import BatchObserver
from penstock.types import Batch, Execution, Failure, Traced, WorkerId


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs the batches of a model."""

    kind: Kind = Kind.INTERNAL  # CLIENT for an endpoint
    about: bytes = b""  # attributes


class OpenRun(Traced, eq=False):
    """A batch that runs, and whose run is recorded."""

    own: Context
    parent: bytes


class RunSpans(BatchObserver):
    def __init__(self, exporter: Exporter, runners: Mapping[str, Runner]) -> None:
        """`runners`: by model."""
        self._exporter, self._runners = exporter, runners
        self._ids = Ids()

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        above = batch.traced or first_traced(batch)
        context = (
            None if above is None or not is_sampled(above.traceparent) else context_of(above.traceparent)
        )
        if above is not None and context is not None:
            own = Context(context.trace, self._ids.span())
            batch.traced = OpenRun(own.traceparent, above.tracestate, own=own, parent=context.span)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        traced = batch.traced
        if isinstance(traced, OpenRun):
            runner = self._runners[batch.model]
            self._exporter.add(
                run_span(
                    self._exporter, runner, batch, traced.own, traced.parent, traced.tracestate, execution,
                    failure, remote=True,
                )
            )  # fmt: skip


def run_span(
    exporter: Exporter,
    runner: Runner,
    batch: Batch,
    own: Context,
    parent: bytes,
    state: str | None,
    execution: Execution,
    failure: Failure | None,
    *,
    remote: bool = False,
) -> bytes:
    told = [
        runner.about,
        attribute("penstock.model", batch.model),
        attribute("penstock.worker", execution.worker),
        attribute("penstock.batch.size", execution.batch_size),
    ]
    if execution.version:
        told.append(attribute("penstock.model.version", execution.version))
    if execution.padding:
        told.append(attribute("penstock.batch.padding", execution.padding))
    if failure is not None:
        told.append(attribute("error.type", failure.code))
    return span(
        own, parent, title(f"run {batch.model}", runner.kind), exporter.wall(execution.started),
        exporter.wall(execution.ended), b"".join(told), state=state, failed=failure is not None, remote=remote,
    )  # fmt: skip


def first_traced(batch: Batch) -> Traced | None:
    """The trace of the first member whose trace is recorded."""
    for request in batch.requests:
        if request.traceparent is not None and is_sampled(request.traceparent):
            return Traced(request.traceparent, request.tracestate)
    return None
