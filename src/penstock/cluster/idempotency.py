"""Requests with an Idempotency-Key over a bus: all gateways share the records, so that a request may be asked at
any of them and is executed once. The gateway hands every request that has such a key to the `KeyedDesk`.

Such a request is executed as a task: the worker or batcher that ends it writes its outcome into the task's record,
so that nothing is lost if a gateway dies. Each asker that waits here is told what the record says, within its own
deadline. There is one `Pursuit` for each key that is waited for at this gateway, however many askers wait for it.
"""

import asyncio
import logging
from dataclasses import replace

from msgspec import structs

from penstock.cluster.tasks import RemoteTask, TaskDesk
from penstock.cluster.unbroken import Unbroken
from penstock.errors import STATUS_BY_CODE, Internal, NotFound, PenstockError, StoreDown
from penstock.idempotency import Keyed, given_again, key_reused
from penstock.loops import is_being_cancelled
from penstock.patience import Patience
from penstock.ports import Asker, Clock, Leaving, Reservation
from penstock.ports.records import SETTLED_WITHIN, Claim, Claims
from penstock.ports.tasks import TaskRecord
from penstock.types import Accepted, Failure, Outcome, Reply

log = logging.getLogger("penstock.gateway")

LOOK_AGAIN = 2.0  # seconds between two looks at a record, since the notice that a task is over may be lost


class Pursuit:
    """One key that somebody waits for at this gateway."""

    __slots__ = ("keyed", "known", "owner", "reservations")

    def __init__(self, keyed: Keyed) -> None:
        self.keyed = keyed
        self.reservations: list[Reservation] = []  # the requests with the key whose askers wait here
        # The one whose request is executed; None if that request came to another gateway.
        self.owner: Reservation | None = None
        self.known = False  # whether the records are known to have the key: then an outage is waited out

    def somebody(self) -> Reservation | None:
        """Drop the reservations whose askers have gone. Returns one of the others, or None if all have gone."""
        self.reservations = [reserved for reserved in self.reservations if reserved.waiting]
        return self.reservations[0] if self.reservations else None


class KeyedDesk:
    """Implements `penstock.idempotency.KeyedRequests` over a bus."""

    def __init__(self, desk: TaskDesk, claims: Claims, clock: Clock) -> None:
        self._desk = desk
        self._claims = claims
        self._clock = clock
        self._pursuits: dict[str, Pursuit] = {}  # by the id of the key (`Keyed.id`)
        self._work = Unbroken()

    def ask(self, keyed: Keyed, reserved: Reservation, asker: Asker) -> Leaving:
        pursuit = self._pursuits.get(keyed.id)
        if pursuit is not None and pursuit.keyed != keyed:
            raise key_reused()
        waiter = reserved.wait(asker)
        if pursuit is None:
            pursuit = self._pursuits[keyed.id] = Pursuit(keyed)
            self._work.start(self._pursue(pursuit))
        pursuit.reservations.append(reserved)
        return waiter

    async def ask_task(self, keyed: Keyed, reserved: Reservation) -> tuple[RemoteTask, bool]:
        """Returns the task of the key, and whether it existed before. A client that leaves meanwhile does not
        cancel this."""
        return await self._work.whole(self._enter(keyed, reserved))

    async def find(self, task_id: str, tenant: str) -> RemoteTask:
        return await self._desk.find(task_id, tenant)

    async def close(self) -> None:
        await self._work.close()

    # ---- who executes it -----------------------------------------------------------------------------------

    async def _enter(self, keyed: Keyed, reserved: Reservation) -> tuple[RemoteTask, bool]:
        """Claim the key and publish the request. When this returns, the request is not lost if a gateway dies."""
        while True:
            claim = await self._claim(keyed, reserved, row=True)
            if claim.ours:
                return self._desk.pending(_as_task(keyed, reserved), reserved.request.request_id), False
            try:
                if claim.placed or claim.over:
                    return await self._desk.find(keyed.id, keyed.tenant), True
                await self._desk.tasks.wait(keyed.id, keyed.tenant, claim.seconds)
            except NotFound:
                continue  # the request that held the key was refused

    async def _claim(self, keyed: Keyed, reserved: Reservation, *, row: bool = False) -> Claim:
        """Publish the request, unless another one with the key is being executed or is over. `row`: nobody waits
        here, so the end of the task is to be a row in the ledger. Raises Refused."""
        limit = max(0.0, reserved.request.deadline - self._clock())
        request = _as_task(keyed, reserved)
        claim = await self._claims.claim(
            keyed,
            request,
            reserved.request.request_id,
            limit,
            row=row,
            retry_after=reserved.backlog_seconds(),
        )
        if claim.other:
            raise key_reused()
        if not claim.ours:
            return claim
        try:
            reserved.admit()
            await self._desk.publisher.accepted(request)
        except PenstockError:
            await self._forget(keyed, request)
            raise
        await self._placed(keyed, request)
        return Claim(ours=True, placed=True, seconds=limit + SETTLED_WITHIN)

    async def _placed(self, keyed: Keyed, request: Accepted) -> None:
        """Note in the records that the request has been published. It is executed even if this fails."""
        try:
            await self._claims.placed(keyed, request)
        except StoreDown as error:  # then the claim holds for as long as placing may take
            log.warning("it was not said that a request is placed", extra={"error": error.message})

    async def _forget(self, keyed: Keyed, request: Accepted) -> None:
        try:
            await self._claims.forget(keyed, request)
        except StoreDown as error:  # the claim then runs out by itself
            log.debug("a claim was left behind", extra={"error": error.message})

    # ---- who is told ---------------------------------------------------------------------------------------

    async def _pursue(self, pursuit: Pursuit) -> None:
        """Follow the key until everyone who waits for it here has been told, or has gone."""
        patience = Patience("Waiting for keyed requests")
        try:
            while (reserved := pursuit.somebody()) is not None:
                try:
                    record = await self._look(pursuit, reserved)
                    patience.succeeded()
                except NotFound:
                    continue  # the request that held the key was refused
                except StoreDown as error:
                    if not pursuit.known:
                        raise
                    await asyncio.sleep(patience.failed(error))
                    continue
                except asyncio.CancelledError:
                    if is_being_cancelled():
                        raise
                    await asyncio.sleep(LOOK_AGAIN)  # only the look was cancelled, and others still wait here
                    continue
                if record.answer is not None:
                    self._tell(pursuit, record)
        except PenstockError as error:
            self._refuse(pursuit, error)
        except Exception as error:
            log.error("a keyed request was given up on", exc_info=error)
            self._refuse(pursuit, Internal("what became of this request cannot be found out"))
        finally:
            del self._pursuits[pursuit.keyed.id]

    async def _look(self, pursuit: Pursuit, reserved: Reservation) -> TaskRecord:
        """Wait for a while until the task is over. Returns its record."""
        keyed, tasks = pursuit.keyed, self._desk.tasks
        claim = await self._claim(keyed, reserved)
        pursuit.known = True
        if claim.ours:
            pursuit.owner = reserved
        if claim.over:
            return await tasks.find(keyed.id, keyed.tenant)
        record = await tasks.wait(keyed.id, keyed.tenant, min(claim.seconds, LOOK_AGAIN))
        # As far as can be told from here, the task has ended just now.
        if record.answer is not None and record.answer.execution is not None:
            execution = record.answer.execution
            execution.started = self._clock() - execution.seconds
        return record

    def _tell(self, pursuit: Pursuit, record: TaskRecord) -> None:
        """Answer everyone who waits for the key with what the record says."""
        answer = record.answer
        assert answer is not None
        for reserved in pursuit.reservations:
            failure = answer.failure
            if failure is not None and STATUS_BY_CODE.get(failure.code) == 503:
                failure = replace(failure, retry_after=reserved.backlog_seconds())
            told = given_again(
                structs.replace(answer, failure=failure), reserved.request, record.asked or record.id
            )
            if reserved is pursuit.owner:
                told = Reply(reserved.request, told.outcome, told.output, told.failure, told.execution)
            reserved.answer(told)

    def _refuse(self, pursuit: Pursuit, error: PenstockError) -> None:
        failure = Failure.of(error)
        for reserved in pursuit.reservations:
            reserved.answer(Reply(reserved.request, Outcome.FAILED, failure=failure))


def _as_task(keyed: Keyed, reserved: Reservation) -> Accepted:
    """The request as it is published. It has no account, because its reservation counts it."""
    asked = reserved.request
    return structs.replace(asked, key=f"{asked.key}~", request_id=keyed.id, task=True, account=None)
