"""Which batches of a warm-up are within what a batch may cost."""

import asyncio

import pytest

from penstock.config import Model
from penstock.from_config.warm_up import warmer_of
from penstock.testing import Answer, MockBackend
from penstock.types import WorkerId


@pytest.mark.parametrize(
    ("kind", "sizes"),
    [("sum", [1, 2, 4]), ("padded", [1, 2])],
)
def test_a_warm_up_goes_up_to_the_largest_batch_that_may_be_sent(kind: str, sizes: list[int]) -> None:
    """Four of these inputs cost 8 + 2 + 8 + 2 characters, and 4 × 8 where the model pads."""
    inputs = ("a" * 8, "aa")
    model = Model("f", cost="characters", max_cost=20.0, batch_cost=kind, warmup=inputs, batch_sizes="powers")

    async def run() -> list[int]:
        backend = MockBackend(lambda batch: Answer(0.0))
        await backend.start()
        warm_up = await warmer_of("m", model, asyncio.get_running_loop().time).run(backend, WorkerId("m/0"))
        assert warm_up is not None
        return [rung.size for rung in warm_up.rungs]

    assert asyncio.run(run()) == sizes
