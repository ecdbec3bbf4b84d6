"""The verdict: how an installation stands and what to change, in one sentence each. `view.py` asks for it; the page
and `penstock top` show it first.

    what is wrong, the worst first        what it says

    nothing can be served                 why not
    a model has no worker                 which, and its workers' last error
    requests fail                         how many, and with which code
    requests are refused                  how much more is asked than can be done, and which tiers are refused
    requests will soon be refused         how full it is, how long the wait
    workers are missing, letters come     how many
    nothing                               how much of the capacity is used

Each finding is made for each model. The worst one is said; if several are as bad, the first in this list.
"""

from collections.abc import Iterator, Sequence

from penstock.overview.figures import Figures, utilization
from penstock.overview.overview import NOT_ASKED, Level, ModelLook, ProcessLook, Verdict, WorkerLook

FAILING = 0.01  # the part of the requests above which failures, or refusals, are what matters
NEAR = 0.9  # the part of the capacity above which little is left
EXPIRED = "DEADLINE_EXCEEDED"
LAST = 99  # the number of the finding that matters least
SLACK = 0.8  # the part of an objective, or of the longest wait, above which little is left
_ORDER: tuple[Level, ...] = ("bad", "warning", "good")
# What to do about failures, by their code.
_ADVICE = {
    EXPIRED: "Requests expire: add workers, or give them more time (timeouts.timeout).",
    "BACKEND_CRASHED": "The function's process dies: look at the last error of its workers, and at their log.",
    "BACKEND_TIMEOUT": "Batches take longer than they may: look at the workers, or raise timeouts.processing.",
    "BACKEND_UNAVAILABLE": "The endpoint cannot be reached: look at the last error of its workers.",
    "BACKEND_OUT_OF_MEMORY": "Batches do not fit into memory: lower max_batch.",
    "BACKEND_FAILED": "The backend refuses batches: look at the last error of its workers.",
    "INTERNAL": "A mistake of the server: its log has the traceback.",
}


def verdict_of(
    not_ready: str,
    figures: Figures,
    models: Sequence[ModelLook],
    workers: Sequence[WorkerLook],
    processes: Sequence[ProcessLook],
) -> Verdict:
    """Returns the verdict. `not_ready`: why no traffic should come here; empty if it should. `figures`: those of
    all models together."""
    if not_ready:
        return Verdict("bad", f"Not ready: {not_ready}.", _when_not_ready(not_ready))
    found = [each for model in models for each in _findings(model, workers, alone=len(models) == 1)]
    found += _silent(processes)
    if found:
        return min(found, key=lambda each: (_ORDER.index(each[1].level), each[0]))[1]
    return _well(figures, models)


def _when_not_ready(reason: str) -> str:
    if reason.startswith(("loading", "starting", "draining")):
        return "It passes by itself."
    if "batcher" in reason:
        return "Start a batcher: penstock batcher."
    if "Redis" in reason:
        return "Bring Redis back, or look at the network between."
    return "Look at the last error of the workers, and at their log."


def _findings(
    model: ModelLook, workers: Sequence[WorkerLook], *, alone: bool
) -> Iterator[tuple[int, Verdict]]:
    """Yields the findings about one model, each with its number in the list above."""
    own = [worker for worker in workers if worker.model == model.name]
    found = (_without_workers(model, own), _failing(model), _refusing(model), _near(model), _missing(own))
    for number, findings in enumerate(found):
        for level, says, advice in findings:
            named = f"{model.name}: {says[0].lower()}{says[1:].replace(': ', ', ', 1)}"
            yield number, Verdict(level, says if alone else named, advice, model.name)


Finding = tuple[Level, str, str]  # how bad it is, what is said, and what to do


def _without_workers(model: ModelLook, own: Sequence[WorkerLook]) -> Iterator[Finding]:
    if model.healthy:
        return
    if any(worker.state == "loading" for worker in own):
        yield "warning", "The model is loading.", "It passes by itself."
        return
    error = next((worker.last_error for worker in own if worker.last_error), "")
    reason = f" The last error: {error}" if error else ""
    yield "bad", "No worker can serve the model.", f"Look at the workers and their log.{reason}"


def _failing(model: ModelLook) -> Iterator[Finding]:
    rates = model.figures.rates
    failed, served = rates.get("failed", 0.0), rates.get("ok", 0.0)
    if failed > FAILING * (failed + served):
        codes = {
            code: rate
            for code, rate in model.figures.codes.items()
            if code in _ADVICE or code.startswith("BACKEND_")
        }
        code = max(codes, key=lambda each: codes[each], default="")
        part, used = _percent(failed / (failed + served)), utilization(model.figures)
        if code == EXPIRED and used is not None and used > 1.0:
            yield "bad", f"Overloaded: {used:.1f} × capacity; {part} of the requests expire.", "Add workers."
            return
        said = f", most with {code}" if code else ""
        advice = _ADVICE.get(code, "Look at the last error of the workers, and at the dead letters.")
        yield "bad", f"{part} of the requests fail{said}.", advice


def _refusing(model: ModelLook) -> Iterator[Finding]:
    rates = model.figures.rates
    refused = rates.get("refused", 0.0)
    if refused <= FAILING * (refused + rates.get("ok", 0.0)):
        return
    tiers = [tier for tier, rate in model.refused_tiers.items() if rate > 0.0]
    everybody = not tiers or len(tiers) == len(model.standing.queue)
    whom = (
        "requests are refused"
        if everybody
        else f"{_listed(tiers)} {'are' if len(tiers) > 1 else 'is'} refused"
    )
    used = utilization(model.figures)
    if used is None:
        yield (
            "bad",
            f"{_rate(refused)} requests/s are refused, and no batch has been seen yet.",
            "Look at the workers.",
        )
    elif used > 1.0:
        yield "bad", f"Overloaded: {used:.1f} × capacity; {whom}.", "Add workers."
    else:
        yield (
            "bad",
            f"{_rate(refused)} requests/s are refused, although only {_percent(used)} of the capacity"
            " is asked for.",
            "The time limits are too short for the batches (penstock check says so), or a burst is too much.",
        )


def _near(model: ModelLook) -> Iterator[Finding]:
    figures, standing, promise = model.figures, model.standing, model.promise
    used = utilization(figures)
    if used is not None and used > NEAR:
        yield (
            "warning",
            f"Nearly full: {_percent(used)} of capacity.",
            "Add workers before requests are refused.",
        )
    if promise is None:
        return
    slowest, objective = figures.p99, promise.objective * 1e3
    if slowest is not None and slowest > objective:
        yield (
            "warning",
            f"Slow: the slowest 1 % take {slowest:,.0f} ms; {objective:,.0f} ms is the objective.",
            "If they wait, add workers; if batches take long, lower max_batch.",
        )
    elif standing.expected_wait is not None and standing.expected_wait > SLACK * promise.queue_timeout:
        yield (
            "warning",
            f"A request that comes now waits for {standing.expected_wait:.1f} s;"
            f" it may wait for {promise.queue_timeout:.1f} s.",
            "If this lasts, add workers.",
        )


def _missing(own: Sequence[WorkerLook]) -> Iterator[Finding]:
    missing = [worker for worker in own if worker.status != "healthy"]
    if not missing or len(missing) == len(own):
        return
    state = missing[0].state
    error = next((f" The last error: {worker.last_error}" for worker in missing if worker.last_error), "")
    yield (
        "warning",
        f"{len(missing)} of {len(own)} workers {'do' if len(missing) > 1 else 'does'} not serve ({state}).",
        "It passes by itself." if state == "loading" else f"Look at the workers and their log.{error}",
    )


def _silent(processes: Sequence[ProcessLook]) -> Iterator[tuple[int, Verdict]]:
    silent = [each.name for each in processes if not each.told and each.role not in NOT_ASKED]
    if silent:
        says = f"{_listed(silent)} {'do' if len(silent) > 1 else 'does'} not answer: figures are missing."
        advice = "It is of an older release, has just started, or is cut off from Redis."
        yield LAST, Verdict("warning", says, advice)


def _well(figures: Figures, models: Sequence[ModelLook]) -> Verdict:
    if not models:
        return Verdict("good", "No model has been announced yet.", "Start a worker: penstock worker.")
    used = max((part for model in models if (part := utilization(model.figures)) is not None), default=None)
    if used is None:
        return Verdict("good", "All is well: nothing has been asked yet.")
    if not any(figures.rates.values()) and not figures.load:
        return Verdict("good", "All is well: idle.")
    return Verdict("good", f"All is well: {_percent(used)} of capacity.")


def _percent(part: float) -> str:
    return f"{100 * part:.0f} %"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.1f}"


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))
