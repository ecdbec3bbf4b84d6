"""Says in a sentence what a policy does, with the workers and the curve that there are. The sentence stands beside
each model in the overview (`overview/view.py`), on the health page (`runtime/served_model.py`, over Redis
`cluster/condition.py`) and in the log (`runtime/policy_log.py`)."""

_OTHERS = {
    "window": "a batch goes when it is full, or max_wait after its first request came",
    "greedy": "an idle worker takes at once whatever waits",
    "ewma": "a batch waits for 5 to 100 ms, the longer the more arrives",
    "table": "size and wait are looked up by queue depth and utilisation",
}


def policy_reason(policy: str, *, seen: bool, workers: int, best_batch: int, max_batch: int) -> str:
    """Returns what the policy of a model does. `seen`: whether a batch has been run. `workers`: how many are
    healthy. `best_batch`: the size with the best throughput."""
    if policy != "paced":
        return _OTHERS.get(policy, "a policy of your own")
    if not seen:
        return "no batch has been seen yet: batches go as soon as a worker is idle"
    best = f"batches of {best_batch} have the best throughput"
    if best_batch >= max_batch:
        best = f"the fuller a batch, the better: up to {max_batch}"
    if not workers:
        return f"no worker is there to take a batch; {best}"
    if workers == 1:
        return f"one worker takes what waits; {best}"
    return f"{workers} workers start out of step, so that one is free soon; {best}"
