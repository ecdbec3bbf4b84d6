"""Identical requests are executed once, and every asker has an answer, a deadline and an end of its own."""

import asyncio
import gc
import weakref
from contextlib import suppress

import pytest
from flights_kit import Airport, code

from penstock.errors import Draining, Overloaded
from penstock.testing import Recorder, run_virtual
from penstock.types import Ask, Execution, Failure, Identity, Outcome, Reply, TaskStatus, WorkerId


def test_identical_requests_are_executed_once_and_each_asker_has_its_own_answer() -> None:
    async def body() -> None:
        port = Airport()
        asked = [port.ask(request_id=f"r{n}") for n in range(3)]
        (carrier,) = port.published
        port.succeed(carrier, b"7")
        replies = [each.answer.result() for each in asked]
        assert [reply.request.request_id for reply in replies] == ["r0", "r1", "r2"]
        assert {reply.output for reply in replies} == {b"7"}
        assert port.limiter.taken == port.limiter.released == 3
        assert len(port.observed.replies) == 3
        assert (port.sharing.collapsed, port.empty) == (2, True)

    run_virtual(body())


def test_another_input_parameters_tenant_or_model_version_is_another_execution() -> None:
    async def body() -> None:
        port = Airport()
        port.ask()
        port.ask(b'"y"')
        port.ask(parameters=b'{"a":1}')
        port.ask(who="beta")
        port.sharing.learn("v2")
        port.ask()
        assert len(port.published) == 5

    run_virtual(body())


ALIKE = [b'"%b %d %b"' % (b"the same " * 20, number, b" the same" * 20) for number in range(3)]


def test_what_only_looks_alike_is_not_the_same_and_what_is_the_same_is_found_among_it() -> None:
    async def body() -> None:
        port = Airport(ttl=60.0)
        first, second, third = (port.ask(text) for text in ALIKE)
        again = [port.ask(text) for text in ALIKE]
        assert [request.input for request in port.published] == ALIKE
        for number, request in enumerate(port.published):
            port.succeed(request, b"%d" % number)
        outputs = [each.answer.result().output for each in (first, second, third, *again)]
        assert outputs == [b"0", b"1", b"2"] * 2
        assert [port.ask(text).answer.result().output for text in ALIKE] == outputs[:3]
        assert (port.sharing.hits, port.sharing.collapsed, port.empty) == (3, 3, True)

    run_virtual(body())


def test_an_answer_whose_asker_has_left_is_not_given_to_another_that_looks_like_it() -> None:
    async def body() -> None:
        port = Airport()
        gone = port.ask(ALIKE[0])
        port.dispatch(port.published[0])
        gone.waiter.left()
        stays = port.ask(ALIKE[1])
        port.succeed(port.published[0], b"0")
        assert not stays.answer.done()
        port.succeed(port.published[1], b"1")
        assert (stays.answer.result().output, port.empty) == (b"1", True)

    run_virtual(body())


def test_an_answer_whose_asker_has_left_is_remembered_while_its_twin_is_under_way() -> None:
    async def body() -> None:
        port = Airport(ttl=60.0)
        gone = port.ask()
        port.dispatch(port.published[0])
        gone.waiter.left()
        twin = port.ask()
        port.succeed(port.published[0], b"1")
        assert port.ask().answer.result().output == b"1"
        assert not twin.answer.done()
        port.fail(port.published[1])
        assert code(twin) == "BACKEND_FAILED"
        assert port.ask().answer.result().output == b"1"
        assert port.empty

    run_virtual(body())


def test_whoever_leaves_after_it_was_joined_by_a_lookalike_leaves_nothing_behind() -> None:
    async def body() -> None:
        port = Airport()
        first, second = port.ask(ALIKE[0]), port.ask(ALIKE[1])
        first.waiter.left()
        assert [request.input for request in port.withdrawn] == [ALIKE[0]]
        third = port.ask(ALIKE[0])
        for request in port.published[1:]:
            port.succeed(request, request.input)
        assert (second.answer.result().output, third.answer.result().output) == (ALIKE[1], ALIKE[0])
        assert port.empty
        assert not port.memory.places.glances

    run_virtual(body())


@pytest.mark.parametrize("ttl", [0.0, 60.0])
def test_who_asks_while_a_batch_is_answered_does_not_join_what_is_over(ttl: float) -> None:
    async def body() -> None:
        port = Airport(ttl=ttl)
        asked = []

        class AsksAgain(Recorder):
            def reply(self, reply: Reply) -> None:
                super().reply(reply)
                asked.append(port.ask(b'"second"'))

        port.gateway.submit(Ask(b'"first"', identity=Identity("", "1", "key")), AsksAgain())
        second = port.ask(b'"second"')
        execution = Execution(WorkerId("w"), 1, 2, port.loop.time(), 0.0, "v1")
        port.gateway.settle(
            [Reply(each, Outcome.SUCCESS, each.input, None, execution) for each in port.published]
        )
        assert second.answer.result().output == b'"second"'
        if not ttl:
            port.succeed(port.published[2], b'"again"')
        assert asked[0].answer.result().output == (b'"second"' if ttl else b'"again"')
        assert port.empty

    run_virtual(body())


@pytest.mark.parametrize("company", [False, True])
def test_a_refusal_leaves_nothing_for_the_cycle_collector(company: bool) -> None:
    async def body() -> None:
        port = Airport()
        if company:
            port.ask(ALIKE[0])
        port.refusal = Overloaded("full", retry_after=1.0)
        refusal = weakref.ref(port.refusal)
        gc.disable()
        try:
            with suppress(Overloaded):
                port.ask(ALIKE[1])
            port.refusal = None
            assert refusal() is None
        finally:
            gc.enable()

    run_virtual(body())


def test_replies_of_several_batches_at_once_are_told_apart_by_their_version() -> None:
    async def body() -> None:
        port = Airport(ttl=60.0)
        for number in range(4):
            port.ask(b'"%d"' % number)
        now = port.loop.time()
        one, two = (Execution(WorkerId("w"), 1, 2, now, 0.0, version) for version in ("v1", "v2"))
        made = [(one, b"a"), (one, b"b"), (two, b"c"), (None, b"")]
        replies = [
            Reply(request, Outcome.SUCCESS, output, None, execution) if execution
            else Reply(request, Outcome.FAILED, failure=Failure("BACKEND_FAILED", "it was told to"))
            for request, (execution, output) in zip(port.published, made, strict=True)
        ]  # fmt: skip
        port.gateway.settle(replies)
        assert (port.sharing.version, port.sharing.stored) == ("v2", 3)
        port.ask(b'"0"')  # an older version said it
        port.ask(b'"3"')  # it failed
        assert len(port.published) == 6
        assert port.ask(b'"2"').answer.result().output == b"c"

    run_virtual(body())


def test_in_the_shared_scope_tenants_share_an_execution() -> None:
    async def body() -> None:
        port = Airport(shared=True)
        asked = [port.ask(who=tenant) for tenant in ("acme", "beta")]
        (carrier,) = port.published
        port.succeed(carrier)
        assert [each.answer.result().request.tenant for each in asked] == ["acme", "beta"]

    run_virtual(body())


def test_who_joins_a_running_execution_has_no_queue_and_is_not_measured_as_a_batch() -> None:
    async def body() -> None:
        port = Airport()
        first = port.ask()
        port.dispatch(port.published[0])
        await asyncio.sleep(1.0)
        late = port.ask()
        await asyncio.sleep(0.5)
        port.succeed(port.published[0], seconds=1.5)
        whole, part = first.answer.result().execution, late.answer.result().execution
        assert whole is not None
        assert part is not None
        assert (whole.seconds, whole.counted) == (1.5, True)
        assert (part.started, part.counted) == (1.0, False)
        assert part.seconds == pytest.approx(0.5)

    run_virtual(body())


def test_while_somebody_is_aboard_nothing_is_withdrawn() -> None:
    async def body() -> None:
        port = Airport()
        first, second = port.ask(), port.ask()
        first.waiter.left()
        assert code(first) == "CLIENT_LEFT"
        assert port.withdrawn == []
        assert port.gateway.find(port.published[0].key) is port.published[0]
        port.succeed(port.published[0])
        assert code(second) == ""
        assert port.empty

    run_virtual(body())


def test_when_the_last_one_leaves_the_execution_is_withdrawn() -> None:
    async def body() -> None:
        port = Airport()
        asked = [port.ask() for _ in range(3)]
        for each in asked:
            assert port.withdrawn == []
            each.waiter.withdraw()
        assert port.withdrawn == port.published
        assert [code(each) for each in asked] == ["CANCELLED"] * 3
        assert port.empty
        port.ask()
        assert len(port.published) == 2  # a new one

    run_virtual(body())


def test_the_first_askers_deadline_does_not_cut_a_longer_one() -> None:
    async def body() -> None:
        port = Airport()
        short = port.ask(timeout=1.0)
        long = port.ask(timeout=9.0)
        port.dispatch(port.published[0])
        await asyncio.sleep(1.5)
        assert code(short) == "DEADLINE_EXCEEDED"
        assert not long.answer.done()
        port.succeed(port.published[0])
        assert code(long) == ""

    run_virtual(body())


def test_an_execution_that_expires_in_the_queue_goes_on_for_those_with_more_time() -> None:
    async def body() -> None:
        port = Airport()
        short, middle, long = (port.ask(timeout=limit) for limit in (1.0, 2.0, 9.0))
        port.fail(port.published[0], "DEADLINE_EXCEEDED", Outcome.EXPIRED)
        assert code(short) == "DEADLINE_EXCEEDED"
        assert (len(port.queued), port.queued[0].deadline) == (1, 2.0)
        port.fail(port.queued[0], "SERVICE_OVERLOADED")
        assert code(middle) == "SERVICE_OVERLOADED"
        port.succeed(port.queued[0])
        assert code(long) == ""
        assert port.empty

    run_virtual(body())


def test_who_goes_on_is_let_in_like_anybody_else_and_told_if_not() -> None:
    async def body() -> None:
        port = Airport()
        short, long = port.ask(timeout=1.0), port.ask(timeout=9.0)
        port.refusal = Overloaded("full", retry_after=3.0)
        port.fail(port.published[0], "DEADLINE_EXCEEDED", Outcome.EXPIRED)
        assert code(short) == "DEADLINE_EXCEEDED"
        failure = long.answer.result().failure
        assert failure == Failure("SERVICE_OVERLOADED", "full", retry_after=3.0)
        assert (port.limiter.given_back, port.empty) == (1, True)

    run_virtual(body())


def test_what_the_backend_said_no_to_is_everyones_failure() -> None:
    async def body() -> None:
        port = Airport()
        asked = [port.ask(timeout=limit) for limit in (1.0, 9.0)]
        port.fail(port.published[0])
        assert [code(each) for each in asked] == ["BACKEND_FAILED"] * 2
        assert (len(port.published), port.empty) == (1, True)

    run_virtual(body())


@pytest.mark.parametrize("urgent", [{"tier": 0}, {"timeout": 1.0}])
def test_the_more_urgent_takes_the_place_of_a_carrier_that_still_waits(urgent: dict[str, float]) -> None:
    async def body() -> None:
        port = Airport()
        slow = port.ask(tier=1)
        fast = port.ask(**urgent)  # type: ignore[arg-type]
        assert port.withdrawn == [port.published[0]]
        assert port.queued == [fast.waiter.request]
        port.succeed(port.queued[0])
        assert (code(slow), code(fast), port.empty) == ("", "", True)

    run_virtual(body())


def test_the_more_urgent_only_joins_what_is_on_a_worker_already() -> None:
    async def body() -> None:
        port = Airport()
        port.ask(tier=1)
        port.dispatch(port.published[0])
        fast = port.ask(tier=0)
        assert len(port.published) == 1
        port.succeed(port.published[0])
        assert code(fast) == ""

    run_virtual(body())


def test_the_more_urgent_is_refused_like_anybody_and_the_others_fly_on() -> None:
    async def body() -> None:
        port = Airport()
        slow = port.ask(tier=1)
        port.refusal = Overloaded("full", retry_after=3.0)
        with pytest.raises(Overloaded) as refused:
            port.ask(tier=0)
        assert refused.value.model == "model"
        joined = port.ask(tier=1)  # needs no room
        port.succeed(port.published[0])
        assert (code(slow), code(joined), port.empty) == ("", "", True)
        assert port.limiter.taken == port.limiter.released == 3

    run_virtual(body())


def test_where_dispatch_is_not_seen_the_first_of_two_answers_counts_and_no_failure_of_a_former_carrier() -> (
    None
):
    async def body() -> None:
        port = Airport(sees_dispatch=False)
        slow, fast = port.ask(tier=1), port.ask(tier=0)
        former, present = port.published
        port.fail(former, "DEADLINE_EXCEEDED", Outcome.EXPIRED)
        assert not slow.answer.done()
        port.succeed(former, b"1")
        assert (code(slow), code(fast)) == ("", "")
        assert port.withdrawn == [former, present]
        port.succeed(present, b"2")  # it ran all the same, and finds nobody
        assert port.empty

    run_virtual(body())


def test_a_full_queue_refuses_only_what_would_have_to_be_executed() -> None:
    async def body() -> None:
        port = Airport()
        first = port.ask()
        port.refusal = Overloaded("full", retry_after=3.0)
        second = port.ask()
        with pytest.raises(Overloaded):
            port.ask(b'"y"')
        port.succeed(port.published[0])
        assert (code(first), code(second), port.empty) == ("", "", True)

    run_virtual(body())


def test_tasks_share_executions_and_a_cancelled_one_takes_nothing_from_the_others() -> None:
    async def body() -> None:
        port = Airport()
        first = await port.gateway.submit_task(Ask(b'"x"', request_id="t1"))
        second = await port.gateway.submit_task(Ask(b'"x"', request_id="t2"))
        waits = port.ask()
        (carrier,) = port.published
        assert [task.status for task in (first, second)] == [TaskStatus.PENDING] * 2
        await first.cancel()
        assert (first.status, carrier.input) == (TaskStatus.CANCELLED, b'"x"')
        port.dispatch(carrier)
        assert [second.status] == [TaskStatus.PROCESSING]
        port.succeed(carrier, b"5")
        assert second.answer is not None
        assert (second.answer.output, second.answer.request.request_id) == (b"5", "t2")
        assert (code(waits), port.empty) == ("", True)

    run_virtual(body())


def test_a_task_that_is_not_let_in_leaves_nothing_behind() -> None:
    async def body() -> None:
        port = Airport()
        port.refusal = Overloaded("full", retry_after=3.0)
        with pytest.raises(Overloaded):
            await port.gateway.submit_task(Ask(b'"x"', request_id="t1"))
        assert (len(port.tasks), port.empty) == (0, True)
        assert port.limiter.taken == port.limiter.released == port.limiter.given_back == 1

    run_virtual(body())


def test_draining_waits_for_everyone_aboard_and_gives_up_on_all_of_them() -> None:
    async def body() -> None:
        port = Airport()
        asked = [port.ask(timeout=50.0) for _ in range(2)]
        assert not await port.gateway.drained(3.0)
        with pytest.raises(Draining):
            port.ask()
        port.gateway.waiters.end_all(Failure("SERVICE_DRAINING", "bye"))
        assert [code(each) for each in asked] == ["SERVICE_DRAINING"] * 2
        assert (port.withdrawn, port.empty) == (port.published, True)

    run_virtual(body())
