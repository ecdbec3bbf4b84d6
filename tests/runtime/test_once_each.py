"""Equal inputs in one batch of a deterministic model reach its backend once."""

import asyncio
from dataclasses import replace

import pytest
from msgspec import structs
from runtime_kit import Station, ask

from penstock.config import Model
from penstock.errors import BatchRejected
from penstock.from_config.sharing import sameness_of
from penstock.runtime.collapse.once_each import run_once_each
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Outcome, Reason, Request, Result

BAD = Failure("BACKEND_FAILED", "not a number")


def by_input(request: Request) -> bytes:
    return request.input


def batch(*texts: bytes) -> Batch:
    return Batch(1, "model", b"", [ask(text=text) for text in texts], Reason.FULL, 0.0)


def test_each_input_is_run_once_and_every_place_has_its_output() -> None:
    async def body() -> None:
        backend = MockBackend()
        result = await run_once_each(backend.run, batch(b"1", b"2", b"1", b"3", b"2"), by_input)
        assert result.outputs == [b"1", b"2", b"1", b"3", b"2"]
        assert (result.executed, backend.batches[0].size) == (3, 3)

    run_virtual(body())


def test_an_input_that_fails_fails_at_every_place_where_it_stands() -> None:
    class OneBad(MockBackend):
        async def run(self, batch: Batch) -> Result:
            result = await super().run(batch)
            result.failures = {1: BAD}
            return result

    async def body() -> None:
        result = await run_once_each(OneBad().run, batch(b"1", b"2", b"1", b"2", b"3"), by_input)
        assert result.failures == {1: BAD, 3: BAD}

    run_virtual(body())


def test_a_batch_without_repetitions_goes_as_it_is() -> None:
    async def body() -> None:
        backend, whole = MockBackend(), batch(b"1", b"2")
        result = await run_once_each(backend.run, whole, by_input)
        assert (result.executed, backend.batches) == (0, [whole])

    run_virtual(body())


@pytest.mark.parametrize("outputs", [(b"1",), (b"1", b"2", b"3")])
def test_a_wrong_count_is_a_failed_batch_also_where_it_would_fit_the_whole(
    outputs: tuple[bytes, ...],
) -> None:
    async def body() -> None:
        backend = MockBackend([Answer(outputs=outputs)])
        with pytest.raises(BatchRejected, match="for 2 inputs"):
            await run_once_each(backend.run, batch(b"1", b"2", b"1"), by_input)

    run_virtual(body())


def test_the_service_curve_learns_the_size_that_was_executed() -> None:
    async def body() -> None:
        station = Station(MockBackend(lambda batch: Answer(seconds=0.1 * batch.size)), sameness=by_input)
        async with station.running():
            for _ in range(5):
                station.send(*(ask(station.loop.time(), text=b"%d" % (n % 2)) for n in range(8)))
                await asyncio.sleep(2.0)
        assert len(station.replies) == 40
        assert all(reply.outcome is Outcome.SUCCESS for _, reply in station.replies)
        assert all(reply.output == reply.request.input for _, reply in station.replies)
        assert station.pump.batcher.curve(2) == pytest.approx(0.2, rel=0.01)

    run_virtual(body())


def test_tenants_whose_answers_are_kept_apart_are_executed_apart() -> None:
    async def body() -> None:
        model = Model(target="sim:", deterministic=True)
        tenants, backend = ("acme", "beta", "acme"), MockBackend()
        requests = [ask(text=b"1", tenant=tenant) for tenant in tenants]
        whole = Batch(1, "model", b"", requests, Reason.FULL, 0.0)
        apart, together = sameness_of(model), sameness_of(replace(model, cache="shared"))
        assert apart is not None
        assert together is not None
        assert (await run_once_each(backend.run, whole, apart)).executed == 2
        assert (await run_once_each(backend.run, whole, together)).executed == 1
        assert sameness_of(replace(model, parameters="per_item")) is None
        assert sameness_of(replace(model, deterministic=False)) is None

    run_virtual(body())


def test_requests_are_not_changed() -> None:
    async def body() -> None:
        whole = batch(b"1", b"1")
        before: list[Request] = [structs.replace(request) for request in whole.requests]
        await run_once_each(MockBackend().run, whole, by_input)
        assert [(r.key, r.input) for r in whole.requests] == [(r.key, r.input) for r in before]

    run_virtual(body())
