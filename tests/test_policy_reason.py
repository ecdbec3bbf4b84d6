"""What a policy does is told by the workers and the curve that there are."""

from penstock.core.policy import POLICIES
from penstock.policy_reason import policy_reason


def reason(policy: str = "paced", *, seen: bool = True, workers: int = 3, best: int = 8) -> str:
    return policy_reason(policy, seen=seen, workers=workers, best_batch=best, max_batch=16)


def test_the_default_policy_is_told_by_what_was_learned() -> None:
    assert reason(workers=1) == "one worker takes what waits; batches of 8 have the best throughput"
    assert reason().startswith("3 workers start out of step")
    assert reason(best=16).endswith("the fuller a batch, the better: up to 16")
    assert reason(workers=0).startswith("no worker is there")
    assert reason(seen=False).startswith("no batch has been seen yet")


def test_every_policy_has_a_sentence_of_its_own() -> None:
    assert reason("greedy") == "an idle worker takes at once whatever waits"
    assert len({reason(policy) for policy in POLICIES}) == len(POLICIES)
    assert reason("mine") == "a policy of your own"
    assert "a policy of your own" not in {reason(policy) for policy in POLICIES}
