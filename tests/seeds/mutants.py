"""Mistakes that are made on purpose, to see that the checks notice: an installation with one of them must fail with
one of the first seeds."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from penstock.adapters.in_hand import InHand
from penstock.adapters.memory.shard import Shard
from penstock.cluster.batcher import BatcherMember
from penstock.cluster.gateway import GatewayMember
from penstock.cluster.member import Member
from penstock.cluster.worker_post import WorkerPost
from penstock.core.buffer import Buffer
from penstock.runtime.gateway import Gateway
from penstock.runtime.waiters import Waiters
from penstock.types import Reply, Request, Result
from penstock.words.envelopes import WireRequest
from penstock.words.messages import Answers, Dispatch
from seeds import run
from seeds.draw import MODEL, Drawn, draw
from seeds.run import Verdict

SEEDS = 60  # seeds that each mistake is looked for with

Mistake = Callable[[], AbstractContextManager[object]]


def _instead(of: type, name: str, make: Callable[[Any], Callable[..., Any]]) -> Mistake:
    """`make` is given the method, and returns what is called instead."""
    return lambda: patch.object(of, name, make(getattr(of, name)))


def _every(number: int, right: Callable[..., Any], wrong: Callable[..., Any]) -> Callable[..., Any]:
    """Calls `wrong` each time that the number comes round, and else `right`."""
    calls = 0

    def either(*args: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        return (right if calls % number else wrong)(*args, **named)

    return either


def _nothing(*args: Any, **named: Any) -> None:
    pass


async def _nothing_to_wait_for(*args: Any, **named: Any) -> None:
    pass


def _swapped(answer: Callable[..., Any]) -> Callable[..., Any]:
    async def swapped(self: WorkerPost, batch: Dispatch, result: Result, execution: Any) -> None:
        result.outputs = [*result.outputs[1:], *result.outputs[:1]]
        await answer(self, batch, result, execution)

    return swapped


def _twice(settle: Callable[..., Any]) -> Callable[..., Any]:
    def twice(self: Waiters, replies: Sequence[Reply]) -> None:
        askers = [
            self._waiters[each.request.key].asker for each in replies if each.request.key in self._waiters
        ]
        settle(self, replies)
        for asker, reply in zip(askers, replies, strict=False):
            asker.reply(reply)

    return twice


def _without_a_word(end: Callable[..., Any]) -> Callable[..., Any]:
    def silent(self: Waiters, request: Any, ending: Any) -> None:
        self._withdraw(request)
        self._waiters.pop(request.key, None)

    return silent


def _with_more_time(request: Callable[..., Any]) -> Callable[..., Any]:
    def more(self: WireRequest, *args: Any) -> Any:
        made = request(self, *args)
        made.expires, made.deadline = made.expires + 3.0, made.deadline + 3.0
        return made

    return more


def _one_less(settled: Callable[..., Any]) -> Callable[..., Any]:
    def one_less(self: Any, requests: Sequence[Request]) -> None:
        settled(self, list(requests)[1:])

    return one_less


def _other_askers(answer: Callable[..., Any]) -> Callable[..., Any]:
    def other(self: GatewayMember, answers: Answers) -> None:
        answers.keys = [*answers.keys[1:], *answers.keys[:1]]
        answer(self, answers)

    return other


def _of_anybody(drawn: Drawn) -> Drawn:
    """Answers of one tenant are remembered for all."""
    model = replace(drawn.config.models[MODEL], deterministic=True, cache="shared")
    return replace(drawn, config=replace(drawn.config, models={MODEL: model}), same=True)


MOVED = "a request that was moved stands in its lane"
MUTANTS: dict[str, Mistake] = {
    "an answer is dropped when its time is over": _instead(Waiters, "end", _without_a_word),
    "a message with answers is lost": _instead(
        GatewayMember, "_answer", lambda right: _every(5, right, _nothing)
    ),
    "an answer is given twice": _instead(Waiters, "settle", _twice),
    "outputs of a batch are swapped": _instead(WorkerPost, "answer", _swapped),
    "answers go to the wrong askers": _instead(GatewayMember, "_answer", _other_askers),
    "what a dead batcher left is forgotten": _instead(Shard, "take_over", lambda _: lambda *args: []),
    "batchers give requests more time": _instead(WireRequest, "request", _with_more_time),
    "one request of many is not settled": _instead(InHand, "settled", _one_less),
    MOVED: _instead(Buffer, "forget_taken", lambda _: _nothing),
    "everybody becomes a dead letter": lambda: patch(
        "penstock.cluster.letter_writer.is_dead", lambda reply, attempts: True
    ),
    "loops go on after the end": _instead(Member, "stop", lambda _: _nothing_to_wait_for),
    "a batcher hears of no ends": _instead(
        BatcherMember, "received", lambda right: _every(4, right, _nothing)
    ),
    "a gateway forgets who waits": _instead(Gateway, "settle", lambda right: _every(6, right, _nothing)),
}


def _full_of_poison(drawn: Drawn) -> Drawn:
    """Many inputs spoil their batches, so that tenants are set apart while they have something waiting."""
    return replace(
        drawn, poison=0.5, trouble=0.0, zones=(), gateways=1, batchers=1, workers=2, batch_seconds=0.2, asks=60,
        asking_seconds=0.8, leaves=0.0, tasks=0.0, keyed=0.0, faults=0,
    )  # fmt: skip


ACROSS = "answers of a tenant are given to another"
NAMES = (*MUTANTS, ACROSS)


def caught(name: str) -> Verdict | None:
    """The first run in which a mistake is noticed."""
    if name == ACROSS:
        return _first_wrong(lambda seed: _of_anybody(draw(seed)))
    with MUTANTS[name]():
        if name == MOVED:  # rare: the first seed that notices it is the 20th
            return _first_wrong(lambda seed: _full_of_poison(draw(seed)), first=20)
        return _first_wrong(draw)


def _first_wrong(drawn: Callable[[int], Drawn], first: int = 0) -> Verdict | None:
    for seed in range(first, first + SEEDS):
        verdict = run.play(seed, drawn=drawn(seed))
        if verdict.wrong:
            return verdict
    return None
