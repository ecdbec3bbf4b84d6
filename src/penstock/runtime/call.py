"""Several asks of one caller: let in together or not at all, and answered together.

    asks ──► all let in ──► all have an output ──► the replies, in the order of the asks
               │ one is refused   │ one fails: that reply alone, and the others are withdrawn
               │                  └ the caller leaves: all are withdrawn
               └► those before it are taken back: of the whole call, nothing is left but the refusal

The gateway calls `submit_all` for a door whose request holds several inputs. It lets all asks in within one turn of
the loop. So what is taken back has not gone to a worker, nor to Redis.
"""

from collections.abc import Callable, Sequence

from msgspec import Struct

from penstock.ports import Asker, CallAsker
from penstock.runtime.waiters import Waiter, Waiters
from penstock.types import Accepted, Ask, Reply

Submit = Callable[[Ask, Asker], Waiter]


class Call:
    """A call that was let in, until it is answered."""

    __slots__ = ("_asker", "_missing", "_replies", "_waiters")

    def __init__(self, number: int, asker: CallAsker) -> None:
        self._asker: CallAsker | None = asker  # None: the call is over
        self._replies: list[Reply | None] = [None] * number
        self._missing = number
        self._waiters: Sequence[Waiter] = ()

    def goes_on_with(self, waiters: Sequence[Waiter]) -> None:
        """Note that all asks were let in. Some may have been answered already, from memory; then the call may even
        be over."""
        self._waiters = waiters
        if self._asker is None:
            self._withdraw()

    def replied(self, index: int, reply: Reply) -> None:
        """Take in the reply to one ask. The last output, or the first failure, ends the call."""
        asker = self._asker
        if asker is None:
            return
        if reply.failure is not None:
            self._asker = None
            self._withdraw()
            asker.answered([reply])
            return
        self._replies[index] = reply
        self._missing -= 1
        if not self._missing:
            self._asker, self._waiters = None, ()
            asker.answered([each for each in self._replies if each is not None])

    def left(self) -> None:
        """Withdraw what is not answered yet, since the caller has gone."""
        self._asker = None
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            waiter.left()

    def _withdraw(self) -> None:
        """Withdraw what is not answered yet. An ask that was answered already stays as it is."""
        waiters, self._waiters = self._waiters, ()
        for waiter in waiters:
            waiter.withdraw()


class OneAsk(Struct, eq=False):
    """The asker of one ask of the call. It hands the reply to the call."""

    call: Call
    index: int

    def reply(self, reply: Reply) -> None:
        self.call.replied(self.index, reply)


def submit_all(
    asks: Sequence[Ask],
    asker: CallAsker,
    submit: Submit,
    waiters: Waiters,
    release: Callable[[Accepted], None],
    check_rest: Callable[[Sequence[Ask], Waiter], None],
) -> Call:
    """Let in all asks, or none. `submit` lets in one ask or raises Refused. `release` gives the quota of a request
    back, as if it had not come.

    `check_rest` is called once the first ask is let in. It raises Refused if the others cannot all be let in:
    letting hundreds of them in and taking them back would cost the server milliseconds that nobody is charged
    for."""
    call, entered = Call(len(asks), asker), list[Waiter]()
    # An answer from memory is an outcome only if all the others are let in too.
    with waiters.unreported() as answered:
        try:
            for index, ask in enumerate(asks):
                entered.append(submit(ask, OneAsk(call, index)))
                if not index:
                    check_rest(asks, entered[0])
        except Exception:
            for waiter in entered:
                if not waiter.settled:
                    release(waiters.take_back(waiter))
            for reply in answered:
                release(reply.request)
            answered.clear()
            raise
    call.goes_on_with(entered)
    return call
