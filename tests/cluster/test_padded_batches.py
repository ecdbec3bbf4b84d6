"""Over a bus, the worker pads its batches, and the batcher knows what was run."""

import asyncio

from town import Town, replies, right_answer

from penstock.cluster.condition import health_of
from penstock.testing import Answer, run_virtual
from penstock.types import Batch, Outcome

NUMBER = 200
PER_INPUT = 0.003  # seconds


def slower_when_larger(batch: Batch) -> Answer:
    return Answer(PER_INPUT * batch.size, tuple(each.input[:-1] + each.input[1:] for each in batch.requests))


def test_every_backend_is_given_an_allowed_size_and_everybody_gets_their_own_answer_once() -> None:
    async def body() -> None:
        town = Town(script=slower_when_larger, batch_sizes=(2, 5, 16))
        gateway = await town.add_gateway()
        batcher = await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        askers = []
        for number in range(NUMBER):
            askers.append(town.send(gateway, number))
            await asyncio.sleep(0.001)
        answers = await replies(askers)  # a second answer to one of them would be an error
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        assert [each.output for each in answers] == [right_answer(number) for number in range(NUMBER)]
        sizes = [batch.size for backend in town.backends for batch in backend.batches]
        assert {*sizes} <= {2, 5, 16}
        padding = sum(sizes) - NUMBER
        assert padding > 0
        await town.settle_down()
        core = batcher._models.pumps["double"].batcher
        assert core.rules.sizes.allowed == (2, 5, 16)
        # What it learned is what the sizes that were run take.
        for size in {*sizes}:
            assert abs(core.curve(size) - PER_INPUT * size) < 0.25 * PER_INPUT * size
        share = health_of(gateway.registry).models["double"].padded_share
        assert abs(share - padding / sum(sizes)) < 0.02
        await town.stop()

    run_virtual(body())
