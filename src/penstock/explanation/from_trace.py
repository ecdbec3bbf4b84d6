"""Finds out from spans what happened to one request. `cli/explain.py` calls it for `--trace`. Which spans there are
and what they hold is in docs/tracing.md.

    the request ── its wait, once for each attempt ◄──link── process: the batch, in one span or several ── its run
                                                     └─────link──► the waits of the others in the batch

Any of these may be missing: a process may not be traced, or its spans may be in another file. Pure.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from penstock.explanation.facts import (
    CANCELLED,
    EXPIRED,
    FAILED,
    REFUSED,
    SUCCESS,
    UNKNOWN,
    Error,
    Facts,
    Timeline,
    Tried,
)
from penstock.explanation.otlp_json import Span
from penstock.units import iso_time

MOST_NAMED = 16  # others of the same batch that are named
ACCEPTED = 202  # the status of HTTP with which a task begins
ENDINGS = {"DEADLINE_EXCEEDED": EXPIRED, "CANCELLED": CANCELLED, "CLIENT_LEFT": CANCELLED}

# Returns all spans of the texts in which any of these words stands, and perhaps others.
Read = Callable[[Collection[str]], Iterable[Span]]


class _Batch(NamedTuple):
    """A batch that the request was in."""

    span: Span
    links: Sequence[str]  # the waits of all its traced members
    runs: Sequence[Span]

    @property
    def code(self) -> str:
        """Of its failure; empty if it has outputs."""
        return _text(self.span, "error.type")

    @property
    def size(self) -> int:
        return int(self.span.attributes.get("messaging.batch.message_count", 0))


def of_trace(request_id: str, read: Read) -> Facts | None:
    """Returns the facts of the latest request of this id; None if no span is of such a request."""
    named = [span for span in read([request_id]) if _text(span, "penstock.request_id") == request_id]
    if not named:
        return None
    waits = [span for span in named if _is(span, "wait")]
    near = _unique(read({span.id for span in named} | {wait.parent for wait in waits if wait.parent}))
    above = {wait.parent for wait in waits}
    roots = [span for span in near if span.id in above or (span in named and not _is(span, "wait"))]
    root = max(roots, key=lambda span: span.start, default=None)
    if root is None:
        latest = max(waits, key=lambda wait: wait.start)
        waits = [wait for wait in waits if wait.parent == latest.parent]
    else:
        waits = [wait for wait in waits if wait.parent == root.id]
    batches = _batches(waits, near, read)
    if sum("penstock.attempt" not in wait.attributes for wait in waits) > 1:
        # A call with several inputs: what is told is the way of the one that took longest.
        ended = [wait for wait in waits if wait.id in batches] or waits
        waits = [max(ended, key=lambda wait: batches[wait.id].span.end if wait.id in batches else wait.end)]
    waits.sort(key=lambda wait: wait.start)
    return _facts(request_id, root, waits, [batches[wait.id] for wait in waits if wait.id in batches], read)


def _batches(waits: Sequence[Span], near: Collection[Span], read: Read) -> dict[str, _Batch]:
    """Returns the batch of each wait."""
    found: dict[str, Span] = {}
    for span in near:
        if _is(span, "process"):
            found |= {wait.id: span for wait in waits if wait.id == span.parent or wait.id in span.links}
    if not found:
        return {}
    # The spans of one batch are all below the wait of its first member, and no other batch is.
    parts = [span for span in _unique(read({each.parent for each in found.values()})) if _is(span, "process")]
    runs = [span for span in _unique(read({part.id for part in parts})) if span.name.startswith("run ")]
    batches = {}
    for wait, span in found.items():
        own = [part for part in parts if part.parent == span.parent]
        ids = {part.id for part in own}
        links = [link for part in own for link in part.links]
        batches[wait] = _Batch(span, links, [run for run in runs if run.parent in ids])
    return batches


def _facts(
    request_id: str, root: Span | None, waits: Sequence[Span], batches: Sequence[_Batch], read: Read
) -> Facts:
    arrival = waits[0].start if root is None else root.start

    def after(when: int) -> float:
        return round((when - arrival) / 1e6, 3)

    told = [*([] if root is None else [root]), *waits]  # those that tell of the request itself
    last = batches[-1] if batches else None
    status, code = _ending(root, last)
    ended = (last.span.end if last else None) if _is_accepted(root) or root is None else root.end
    facts = Facts(
        request_id=request_id,
        status=status,
        model=_first(told, "penstock.model") or _first(told, "messaging.destination.name"),
        tenant=_first(told, "penstock.tenant"),
        tier=_first(told, "penstock.tier"),
        arrived=iso_time(arrival / 1e9),
        ended="" if ended is None else iso_time(ended / 1e9),
        latency_ms=None if ended is None else after(ended),
        cached=root is not None and root.attributes.get("penstock.cached") is True,
        gateway="" if root is None else root.instance,
        error=Error(code) if code else None,
        attempts=[
            Tried(after(each.span.end), "", each.code, "", _text(each.span, "penstock.worker"), each.size)
            for each in batches
            if each.code
        ],
        timeline_ms=Timeline(answered=None if root is None or _is_accepted(root) else after(root.end)),
    )
    if last is not None and not last.code:
        ran = last.runs[0] if last.runs else last.span
        times = facts.timeline_ms
        times.sealed, times.started, times.ended = after(waits[-1].end), after(ran.start), after(ran.end)
        facts.reason, facts.batch_size = _text(last.span, "penstock.batch.reason"), last.size
        facts.worker = _text(last.span, "penstock.worker")
        facts.mates = _mates(waits[-1], last, read)
    return facts


def _ending(root: Span | None, last: _Batch | None) -> tuple[str, str]:
    """Returns how a request ended, and its error code. `root`: its span at the gateway. `last`: its last batch."""
    if root is None or _is_accepted(root):  # only its batches tell
        if last is None:
            return UNKNOWN, ""
        return (FAILED, last.code) if last.code else (SUCCESS, "")
    code = _text(root, "error.type")
    if not code:
        return SUCCESS, ""
    if last is None and "penstock.model" not in root.attributes:
        return REFUSED, code
    return ENDINGS.get(code, FAILED), code


def _mates(own: Span, batch: _Batch, read: Read) -> list[str]:
    """Returns the ids of others in the batch, as far as they are traced."""
    others = {link for link in batch.links if link != own.id}
    some = set(sorted(others)[:MOST_NAMED])
    if not some:
        return []
    waits = sorted(_unique(span for span in read(some) if span.id in some), key=lambda wait: wait.start)
    return [_text(wait, "penstock.request_id") for wait in waits]


def _is_accepted(root: Span | None) -> bool:
    return root is not None and root.attributes.get("http.response.status_code") == ACCEPTED


def _is(span: Span, operation: str) -> bool:
    return span.attributes.get("messaging.operation.name") == operation


def _text(span: Span, name: str) -> str:
    return str(span.attributes.get(name, ""))


def _first(spans: Iterable[Span], name: str) -> str:
    return next((str(span.attributes[name]) for span in spans if name in span.attributes), "")


def _unique(spans: Iterable[Span]) -> list[Span]:
    """Returns each span once: a collector may write one twice."""
    return list({span.id: span for span in spans}.values())
