"""Spans of batches on their workers. A worker process has `RunSpans` among its observers (`roles/traces.py`). Where
batcher and workers are in one process, `batch_spans.py` writes these spans too."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from random import Random
from typing import NamedTuple

from penstock.adapters.tracing.context import Context, context_of, is_sampled
from penstock.adapters.tracing.exporter import Exporter, Wall
from penstock.adapters.tracing.otlp import Kind, Value, attribute, attributes, span, title
from penstock.ports import BatchObserver
from penstock.types import Batch, Execution, Failure, Traced, WorkerId


@dataclass(frozen=True, slots=True)
class Runner:
    """What runs the batches of a model."""

    kind: Kind = Kind.INTERNAL  # CLIENT for an endpoint
    about: bytes = b""  # attributes
    status: str = ""  # the name of the attribute that has the status of an endpoint's answer


class OpenRun(Traced, eq=False, kw_only=True):
    """A batch that runs, and whose run is recorded."""

    above: Context


class Run(NamedTuple):
    """How a batch ran; implements `exporter.Record`."""

    runner: Runner
    model: str
    own: str  # a traceparent
    above: Context
    state: str | None
    worker: str
    size: int
    version: str
    padding: int
    code: str  # of its failure; empty if it has outputs
    started: float
    ended: float
    remote: bool  # whether the span above is in another process
    status: int | None  # with which the endpoint answered

    @property
    def spans(self) -> int:
        return 1

    def write(self, wall: Wall) -> list[bytes]:
        own, runner, code = context_of(self.own), self.runner, self.code
        assert own is not None
        told = _ran(self.model, self.worker, self.size, self.version, self.padding, code)
        if runner.status and self.status is not None:
            told += attribute(runner.status, self.status)
        return [
            span(
                own, self.above.span, title(f"run {self.model}", runner.kind), wall(self.started),
                wall(self.ended), runner.about + told, state=self.state, failed=bool(code), remote=self.remote,
            )
        ]  # fmt: skip


class RunSpans(BatchObserver):
    """The observer of a worker process that notes runs."""

    def __init__(self, exporter: Exporter, runners: Mapping[str, Runner]) -> None:
        """`runners`: by model."""
        self._exporter, self._runners = exporter, runners
        self._draw = Random().getrandbits

    def sent(self, batch: Batch, worker: WorkerId) -> None:
        above = batch.traced or first_traced(batch)
        context = (
            None if above is None or not is_sampled(above.traceparent) else context_of(above.traceparent)
        )
        if above is not None and context is not None:
            batch.traced = OpenRun(below(context, self._draw(64)), above.tracestate, above=context)

    def ended(self, batch: Batch, execution: Execution, failure: Failure | None) -> None:
        traced = batch.traced
        if isinstance(traced, OpenRun):
            runner, own = self._runners[batch.model], traced.traceparent
            run = run_of(runner, batch, own, traced.above, traced.tracestate, execution, failure, remote=True)
            self._exporter.add(run)


def run_of(
    runner: Runner,
    batch: Batch,
    own: str,
    above: Context,
    state: str | None,
    execution: Execution,
    failure: Failure | None,
    *,
    remote: bool = False,
) -> Run:
    """Returns the record of a run. `own`: its traceparent. `above`: the span above it."""
    status = None if batch.traced is None else batch.traced.status
    return Run(
        runner, batch.model, own, above, state, execution.worker, execution.batch_size, execution.version,
        execution.padding, "" if failure is None else failure.code, execution.started, execution.ended, remote,
        status,
    )  # fmt: skip


def below(above: Context, drawn: int) -> str:
    """Returns the traceparent of a new span of the same trace. `drawn`: 64 random bits."""
    return f"00-{above.trace.hex()}-{drawn or 1:016x}-01"


def first_traced(batch: Batch) -> Traced | None:
    """Returns the trace of the first member whose trace is recorded; None if there is none."""
    for request in batch.requests:
        if request.traceparent is not None and is_sampled(request.traceparent):
            return Traced(request.traceparent, request.tracestate)
    return None


@lru_cache(4096)  # few results are different, so that most are written once
def _ran(model: str, worker: str, size: int, version: str, padding: int, code: str) -> bytes:
    told: dict[str, Value] = {"penstock.model": model, "penstock.worker": worker, "penstock.batch.size": size}
    if version:
        told["penstock.model.version"] = version
    if padding:
        told["penstock.batch.padding"] = padding
    if code:
        told["error.type"] = code
    return attributes(told)
