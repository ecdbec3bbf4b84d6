"""Reports of processes as a test wants them."""

from penstock.overview.counts import Counts
from penstock.overview.overview import Overview, ProcessLook, WorkerLook
from penstock.overview.reports import ModelReport, Promise, Report, Standing
from penstock.overview.view import Looker, overview_of

PROMISE = Promise(0.5, 2.0)
TIERS = ("enterprise", "paid", "free")


def worker(number: int = 0, model: str = "embed", state: str = "idle", error: str = "") -> WorkerLook:
    status = "healthy" if state in ("idle", "busy") else state
    return WorkerLook(f"{model}/{number}", model, "here", status, state, 0.5, 1, 10, 1.0, 0, 0.0, error)


def standing(arrivals: float = 0.0, capacity: float = 100.0, wait: float | None = 0.0) -> Standing:
    return Standing(
        dict.fromkeys(TIERS, 0), 1000, wait, 50.0, 200.0, arrivals, capacity, [(1, 0.1)], 8, 16, "paced"
    )


def report(
    recent: Counts | None = None,
    stands: Standing | None = None,
    *,
    name: str = "serve",
    model: str = "embed",
    seconds: float = 10.0,
    promise: Promise | None = PROMISE,
) -> Report:
    counts = recent or Counts()
    return Report(name, "serve", seconds, {model: ModelReport(counts, counts, stands, promise)})


def seen(
    *reports: Report,
    workers: tuple[WorkerLook, ...] = (worker(),),
    processes: tuple[ProcessLook, ...] = (),
    not_ready: str = "",
) -> Overview:
    return overview_of(Looker("serve", "serve", "1", not_ready), reports, workers, processes, 0.0)
