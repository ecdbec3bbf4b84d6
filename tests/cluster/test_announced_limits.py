"""What a worker says of a model's time limits, as gateways and batchers understand it."""

import pytest

from penstock.cluster.announcements import announcement_of, with_model
from penstock.config import Config, Model, Timeouts

ELSEWHERE = Timeouts(timeout=8.0, first_batch=300.0)


@pytest.mark.parametrize(
    ("timeouts", "model", "understood"),
    [
        (Timeouts(), Model("f"), (4.0, 6.0, 8.0, 60.0, 300.0)),  # it says nothing: theirs hold
        (Timeouts(timeout=100.0), Model("f"), (50.0, 75.0, 100.0, 100.0, 300.0)),
        (Timeouts(), Model("f", timeout=100.0), (50.0, 75.0, 100.0, 100.0, 300.0)),
        (Timeouts(queue=1.0, first_batch=9.0), Model("f"), (1.0, 6.0, 8.0, 60.0, 9.0)),
        (Timeouts(), Model("f", request_timeout=1.0, first_batch_timeout=7.0), (4.0, 6.0, 1.0, 60.0, 7.0)),
    ],
)
def test_gateways_and_batchers_go_by_the_limits_that_the_worker_sets(
    timeouts: Timeouts, model: Model, understood: tuple[float, ...]
) -> None:
    worker = Config(timeouts=timeouts, models={"x": model})
    other = with_model(Config(timeouts=ELSEWHERE), "x", announcement_of(worker, "x"))
    assert other.timeouts_of("x") == understood
