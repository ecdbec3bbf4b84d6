"""A batch is filled up right before its backend has it, and what that adds reaches nobody."""

import asyncio
from dataclasses import replace
from operator import attrgetter

import pytest
from runtime_kit import Station, ask

from penstock.config import Model
from penstock.core.sizes import Sizes, powers_to
from penstock.errors import BatchRejected
from penstock.from_config.rules import padding_of
from penstock.runtime.padding import Padding
from penstock.testing import Answer, MockBackend, run_virtual
from penstock.types import Batch, Failure, Outcome, Reason, Result

BAD = Failure("BACKEND_FAILED", "not a number")
POWERS = powers_to(64)
PADDING = Padding(POWERS, per_item=False)


def batch(*texts: bytes, parameters: bytes = b"") -> Batch:
    return Batch(1, "model", parameters, [ask(text=text) for text in texts], Reason.FULL, 0.0)


def test_the_last_input_is_repeated_and_what_comes_of_that_is_thrown_away() -> None:
    async def body() -> None:
        backend = MockBackend(lambda filled: Answer(outputs=tuple(b"%d" % n for n in range(filled.size))))
        asked = batch(b"1", b"2", b"3", b"4", b"5")
        result = await PADDING.run(backend, asked)
        [filled] = backend.batches
        assert [request.input for request in filled.requests] == [b"1", b"2", b"3", b"4", *[b"5"] * 4]
        assert result.outputs == [b"0", b"1", b"2", b"3", b"4"]
        assert (result.executed, result.padding, result.size) == (8, 3, 5)
        assert asked.size == 5

    run_virtual(body())


def test_a_batch_of_an_allowed_size_goes_as_it_is() -> None:
    async def body() -> None:
        backend, whole = MockBackend(), batch(b"1", b"2")
        result = await PADDING.run(backend, whole)
        assert (result.executed, result.padding, backend.batches) == (0, 0, [whole])

    run_virtual(body())


def test_a_failure_of_what_was_added_is_nobodys() -> None:
    class LastBad(MockBackend):
        async def run(self, batch: Batch) -> Result:
            result = await super().run(batch)
            result.failures = dict.fromkeys((1, *range(4, batch.size)), BAD)
            return result

    async def body() -> None:
        result = await PADDING.run(LastBad(), batch(b"1", b"2", b"3", b"4", b"5"))
        assert result.failures == {1: BAD, 4: BAD}
        result = await PADDING.run(LastBad(), batch(b"1", b"2", b"3"))
        assert result.failures == {1: BAD}

    run_virtual(body())


@pytest.mark.parametrize("count", [3, 5])
def test_a_wrong_count_is_a_failed_batch_also_where_it_would_fit_the_requests(count: int) -> None:
    async def body() -> None:
        backend = MockBackend([Answer(outputs=(b"1",) * count)])
        with pytest.raises(
            BatchRejected, match=f"gave {count} outputs for 4 inputs, of which 1 were padding"
        ):
            await PADDING.run(backend, batch(b"1", b"2", b"3"))

    run_virtual(body())


def test_parameters_that_stand_in_a_list_are_repeated_with_their_input() -> None:
    own = Padding(POWERS, per_item=True)
    assert own.filled(batch(b"1", b"2", b"3", parameters=b'[{"n":[1]},{},{"n":3}]')).parameters == (
        b'[{"n":[1]},{},{"n":3},{"n":3}]'
    )
    assert PADDING.filled(batch(b"1", b"2", b"3", parameters=b'{"n":[1]}')).parameters == b'{"n":[1]}'


def test_a_model_of_any_size_has_no_padding() -> None:
    model = Model("app.py:f", parameters="per_item")
    assert padding_of(model) is None
    chosen = padding_of(replace(model, batch_sizes=(3, 6)))
    assert chosen is not None
    assert (
        chosen.filled(batch(b"1", b"2", b"3", b"4", parameters=b"[1,2,3,4]")).parameters == b"[1,2,3,4,4,4]"
    )


def test_what_stands_more_than_once_in_a_batch_is_left_out_before_it_is_filled_up() -> None:
    async def body() -> None:
        backend = MockBackend()
        station = Station(backend, sameness=attrgetter("input"), sizes=POWERS)
        async with station.running():
            station.send(*(ask(text=text) for text in (b"1", b"2", b"1", b"3", b"2", b"1")))
            await asyncio.sleep(1.0)
        assert [request.input for request in backend.batches[0].requests] == [b"1", b"2", b"3", b"3"]
        assert [reply.output for _, reply in station.replies] == [b"1", b"2", b"1", b"3", b"2", b"1"]
        [(_, execution, _)] = station.observed.endings
        assert (execution.batch_size, execution.padding) == (6, 1)

    run_virtual(body())


def test_the_halves_of_a_batch_that_failed_are_filled_up_too_and_only_the_bad_input_fails() -> None:
    async def body() -> None:
        def script(filled: Batch) -> Answer:
            poisoned = any(request.input == b'"bad"' for request in filled.requests)
            return Answer(0.1, error=BatchRejected("no") if poisoned else None)

        backend = MockBackend(script)
        station = Station(backend, sizes=Sizes((3, 7, 20)))
        async with station.running():
            # The last one is bad: it is the one that is repeated.
            asked = [ask(text=b'"bad"' if n == 12 else b"%d" % n, limit=1000.0) for n in range(13)]
            station.send(*asked)
            await asyncio.sleep(30.0)
        assert {each.size for each in backend.batches} == {3, 7, 20}
        ended = {reply.request.key: reply for _, reply in station.replies}
        assert len(ended) == len(station.replies) == 13
        for request in asked:
            reply = ended[request.key]
            if request.input == b'"bad"':
                assert reply.outcome is Outcome.FAILED
            else:
                assert (reply.outcome, reply.output) == (Outcome.SUCCESS, request.input)

    run_virtual(body())
