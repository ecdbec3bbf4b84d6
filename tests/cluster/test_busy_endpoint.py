"""Over a bus too an endpoint that is busy has not failed: its batch waits, and its workers rest."""

from town import Town, doubled, replies, right_answer

from penstock.errors import BackendBusy
from penstock.testing import Answer, run_virtual
from penstock.types import Batch, Outcome

BUSY = 12  # batches that are refused, before all are taken


def test_all_are_answered_and_nobody_has_lost_an_attempt() -> None:
    async def body() -> None:
        refused = list[int]()

        def script(batch: Batch) -> Answer:
            if len(refused) < BUSY:
                refused.append(batch.id)
                return Answer(error=BackendBusy("endpoint answered 429: it is busy", retry_after=0.1))
            return doubled(batch)

        town = Town(script=script)
        gateway = await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        answers = await replies([town.send(gateway, number) for number in range(100)])
        assert len(refused) == BUSY
        assert {each.outcome for each in answers} == {Outcome.SUCCESS}
        assert [each.output for each in answers] == [right_answer(number) for number in range(100)]
        assert {backend.closes for backend in town.backends} == {0}
        await town.stop()

    run_virtual(body())


def test_who_waited_in_vain_is_told_when_to_come_again() -> None:
    async def body() -> None:
        def script(batch: Batch) -> Answer:
            return Answer(error=BackendBusy("endpoint answered 429: it is busy", retry_after=50.0))

        town = Town(script=script)
        gateway = await town.add_gateway()
        await town.add_batcher()
        await town.add_worker()
        await town.settle_down()
        [first, second, third] = [town.send(gateway, number, timeout=30.0) for number in range(3)]
        answers = await replies([first, second, third])
        for answer in answers:
            assert answer.failure is not None
            assert (answer.failure.code, answer.failure.retry_after) == ("SERVICE_OVERLOADED", 50.0)
        await town.stop()

    run_virtual(body())
