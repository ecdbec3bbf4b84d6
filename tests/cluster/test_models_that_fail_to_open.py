"""A model that a batcher cannot open is tried again, and until then it is as if nobody had announced it."""

import pytest
from town import Town, replies, right_answer

from penstock.cluster.batched_models import BatchedModels
from penstock.cluster.batcher import BatcherMember
from penstock.testing import run_virtual


def models_of(batcher: BatcherMember) -> BatchedModels:
    return batcher._models


def test_a_model_whose_borrower_cannot_be_made_is_opened_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("no connection for the line")

    async def body() -> None:
        town = Town()
        gateway = await town.add_gateway()
        batcher = await town.add_batcher()
        with monkeypatch.context() as patched:
            patched.setattr(batcher.bus, "credits", broken)
            await town.add_worker()
            await town.settle_down()
            assert not models_of(batcher).pumps
            assert not models_of(batcher).admissions
        await town.add_worker()
        await town.settle_down()
        [answer] = await replies([town.send(gateway, 7)])
        assert answer.output == right_answer(7)
        await town.stop()

    run_virtual(body())
