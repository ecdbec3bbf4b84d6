"""Says in a sentence what a policy does, with the workers and the curve that there are. The overview shows the
sentence beside each model (`view.py`)."""

from penstock.overview.reports import Standing

_OTHERS = {
    "window": "a batch goes when it is full, or max_wait after its first request came",
    "greedy": "an idle worker takes at once whatever waits",
    "ewma": "a batch waits for 5 to 100 ms, the longer the more arrives",
    "table": "size and wait are looked up by queue depth and utilisation",
}


def reason_of(standing: Standing, workers: int) -> str:
    """Returns what the policy of a model does. `workers`: how many are healthy."""
    if standing.policy != "paced":
        return _OTHERS.get(standing.policy, "a policy of your own")
    if not standing.capacity:
        return "no batch has been seen yet: batches go as soon as a worker is idle"
    best = f"batches of {standing.best_batch} have the best throughput"
    if standing.best_batch >= standing.max_batch:
        best = f"the fuller a batch, the better: up to {standing.max_batch}"
    if workers < 2:
        return f"one worker takes what waits; {best}"
    return f"{workers} workers start out of step, so that one is free soon; {best}"
