"""The gateway: turns an ask into an accepted request with a waiter, or refuses it.

The doors call it as `ports.Gateway`, which says what most methods promise. It is the same in one process
(`roles/embedded.py`) and over a bus (`cluster.gateway`); the replies come back to `settle`. Accepting a request
awaits nothing, and its asker is called back with the reply. Only accepting a task is awaited: its record may be
elsewhere.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence, Set

from penstock.core.remembered_answers import RememberedAnswers
from penstock.errors import Draining, NoSuchModel, Overloaded, PenstockError, Refused, Unacceptable, about
from penstock.idempotency import MARK, Keyed, KeyedRequests, keyed
from penstock.jobs import Slack
from penstock.ports import Asker, CallAsker, Clock, Leaving, RequestObserver, Task, Tasks
from penstock.quota import Account, Limiter, Limits
from penstock.runtime.call import submit_all
from penstock.runtime.collapse.flight import AnswerMemory, Flight, is_queued
from penstock.runtime.collapse.flights import Flights
from penstock.runtime.collapse.passenger import Passenger
from penstock.runtime.collapse.shared_answers import SharedAnswers
from penstock.runtime.desk import Desk
from penstock.runtime.parameters import check_parameters
from penstock.runtime.reservation import NOT_ITS_FAULT, Reserved
from penstock.runtime.tenant import Standings, Tenants, release
from penstock.runtime.waiters import Waiter, Waiters
from penstock.runtime.wheel import Wheel
from penstock.types import Accepted, Ask, Failure, Identity, Refusal, Reply, Request


class Gateway:
    def __init__(
        self,
        desks: Mapping[str, Desk],
        tenants: Tenants,
        tasks: Tasks,
        wheel: Wheel,
        observer: RequestObserver,
        clock: Clock,
        ids: Iterator[str],
        limiter: Limiter | None = None,
        limits: Sequence[Limits | None] = (),
        keyed_requests: KeyedRequests | None = None,
        memory: AnswerMemory | None = None,
        elsewhere: SharedAnswers[Flight] | None = None,
    ) -> None:
        """`tenants`: the tenant and the rank of its tier, given a client_id or an identity. `ids`: one for each
        request, without end. `limits`: what each tenant of a tier may ask, by the tier's rank; `limiter` enforces
        them. `memory`: the answers of deterministic models that this gateway remembers; `elsewhere`: those that
        other gateways remember."""
        self._desks = desks
        self._tasks = tasks
        self._observer = observer
        self._ids = ids
        self._limiter = limiter
        self._limited = False  # whether some requests in flight may count against a quota
        self.follow(tenants, limits)
        self._keyed = keyed_requests
        self.clock = clock
        self.draining = False
        # The doors keep these two, so they are changed in place and never replaced.
        self.kinds: dict[str | None, str] = {}
        self.asynchronous: set[str | None] = set()
        self._default: Desk | None = None  # the desk that requests mean which name no model
        self.waiters = Waiters(wheel, self._withdraw, self._is_loading, self._settled)
        self.flights = Flights(desks, self.waiters, clock, memory or RememberedAnswers(0, 0), elsewhere)
        self._shares = False  # whether some requests in flight may share an execution
        self.desks_changed()

    def follow(self, tenants: Tenants, limits: Sequence[Limits | None]) -> None:
        """Go by these tenants and limits from now on. What a tenant has used still counts."""
        self._standings = Standings(tenants, self._limiter, limits)
        self._limits = limits
        self._limited = self._limited or any(limits)

    def desks_changed(self) -> None:
        """Take in that a desk came, went or changed. Whoever changes the desks calls this."""
        self.kinds.clear()
        self.kinds.update(self.models)
        self.asynchronous.clear()
        self.asynchronous.update(name for name, desk in self._desks.items() if desk.responds_async)
        marked = [desk for desk in self._desks.values() if desk.default] or list(self._desks.values())
        self._default = marked[0] if len(marked) == 1 else None
        if self._default is not None:
            self.kinds[None] = self._default.kind
            if self._default.responds_async:
                self.asynchronous.add(None)
        # Once a model has shared executions, some may still be on their way when it no longer does.
        self._shares |= any(desk.sharing is not None for desk in self._desks.values())

    @property
    def models(self) -> Mapping[str, str]:
        return {name: desk.kind for name, desk in self._desks.items()}

    @property
    def taking_bytes(self) -> Set[str]:
        return {name for name, desk in self._desks.items() if desk.takes_bytes()}

    def describe_models(self) -> Sequence[Mapping[str, object]]:
        return [
            {
                "id": name,
                "object": "model",
                "owned_by": "penstock",
                "input": desk.kind,
                "output": desk.output,
                "max_batch": desk.max_batch,
                "default": desk is self._default,
                "respond": "async" if desk.responds_async else "sync",
                "parameters": desk.takes_parameters(),
                "ready": desk.ready(),
            }
            for name, desk in sorted(self._desks.items())
        ]

    def kind_of(self, model: str | None) -> str:
        return self._desk(model).kind

    def slack(self, model: str | None) -> Slack:
        return self._desk(model).slack()

    def takes_bytes(self, model: str | None) -> bool:
        return self._desk(model).takes_bytes()

    @property
    def parameters(self) -> Mapping[str, Sequence[str] | None]:
        return {
            name: desk.parameter_names() if desk.takes_parameters() else ()
            for name, desk in self._desks.items()
        }

    def _desk(self, model: str | None) -> Desk:
        if model is None:
            if self._default is not None:
                return self._default
            if not self._desks:
                raise Overloaded("no model is served yet: no worker has joined", retry_after=1.0)
            raise Unacceptable(
                f"name a 'model': this server has {', '.join(sorted(self._desks))}, and none of them has"
                " default = true"
            )
        desk = self._desks.get(model)
        if desk is None:
            raise NoSuchModel(f"no model {model[:100]!r}; this server has {', '.join(sorted(self._desks))}")
        return desk

    def submit(self, ask: Ask, asker: Asker) -> Waiter:
        desk, request = self._admit(ask)
        if desk.sharing is not None:
            return self.flights.enter(desk, desk.sharing, request, asker)
        waiter = self.waiters.add(request, asker)
        desk.broker.publish(request)
        return waiter

    def submit_all(self, asks: Sequence[Ask], asker: CallAsker) -> Leaving:
        return submit_all(asks, asker, self.submit, self.waiters, self._let_go, self._check_rest)

    def _check_rest(self, asks: Sequence[Ask], first: Waiter) -> None:
        """Raise Refused if the other asks of a call cannot all be let in. This is only asked if each is executed by
        itself, and all have the same time limit."""
        model, timeout, client = asks[0].model, asks[0].timeout, asks[0].client_id
        desk = self._desk(model)
        if len(asks) == 1 or desk.sharing is not None or first.settled:
            return
        refused = desk.admit_more(first.request, len(asks) - 1, self.clock())
        if refused is not None and all(
            ask.model == model and ask.timeout == timeout and ask.client_id == client for ask in asks
        ):
            raise about(refused, desk.model, first.request.tenant)

    def _let_go(self, request: Accepted) -> None:
        """Give the quota of a request back, as if it had not come."""
        release(request, self.clock(), refused=True)

    def find(self, key: str) -> Passenger | None:
        """The request with this key that somebody waits for, or that carries others."""
        return self.waiters.get(key) or self.flights.carrier(key)

    def settle(self, replies: Sequence[Reply]) -> None:
        """Give the replies that came back from the batchers to those who wait for them."""
        if not self._shares:
            self.waiters.settle(replies)
            return
        self.waiters.settle(self.flights.land(replies))

    def _admit(self, ask: Ask, *, task: bool = False, room: bool = True) -> tuple[Desk, Passenger]:
        """Make a request of an ask, charge it to its tenant, and let it in. Raises Refused. `room`: whether to ask
        the desk now if there is room for it.

        If the answers of the model are shared, that is asked later, once it is known that the request must be
        executed. A task over a bus is not shared, because nobody waits for it at this gateway.
        """
        desk = self._default if ask.model is None and self._default is not None else self._desk(ask.model)
        if self.draining:
            raise Draining("this server is shutting down", retry_after=max(1.0, desk.backlog_seconds()))
        if ask.parameters:
            check_parameters(desk, ask.parameters)
        now = self.clock()
        key = next(self._ids)
        identity = ask.identity
        if identity is not None:  # what `Standings.of` does, spelt out for the usual cases
            standing = identity.standing or self._standings.of_identity(identity)
        elif ask.client_id is None:
            standing = self._standings.anonymous
        else:
            standing = self._standings.of_name(ask.client_id)
        tenant, tier, account = standing
        if ask.background:
            tier = len(desk.time_limits) - 1
        if ask.timeout is None:
            queue_limit, request_limit = desk.time_limits[tier]
        else:
            queue_limit = request_limit = min(ask.timeout, desk.longest_limit)
        if account is not None:
            over_quota = account.take(now)
            if over_quota is not None:
                try:
                    raise about(over_quota, desk.model, tenant)
                finally:
                    # Otherwise the error and this frame, which its traceback holds, wait for the cycle collector.
                    del over_quota
        request = Passenger(
            key,
            desk.model,
            ask.input,
            now,
            now + queue_limit,
            now + request_limit,
            ask.request_id or key,
            ask.parameters,
            tenant,
            tier,
            1.0 if desk.cost is None else desk.cost(ask.input),
            len(ask.input),
            ask.traceparent,
            ask.tracestate,
            task,
            ask.background,
            account,
            door=ask.door,
        )
        sharing = desk.sharing
        alone = sharing is None or (task and not sharing.sees_dispatch)
        refused = desk.admit(request, now) if alone and room else None
        if refused is not None:
            if account is not None:
                account.release(now, refused=True)
            try:
                raise about(refused, desk.model, tenant)
            finally:
                del refused  # else the error would keep this frame, which its traceback holds
        return desk, request

    async def submit_task(self, ask: Ask) -> Task:
        desk, request = self._admit(ask, task=True)
        limits = self._limits[request.tier] if self._limited else None
        in_flight = limits is not None and limits.in_flight is not None
        reserved = Reserved(
            request, desk, self.waiters, self.clock,
            is_admitted=True, in_flight=in_flight, flights=self.flights,
        )  # fmt: skip
        return await self._tasks.accept(reserved)

    def submit_keyed(self, ask: Ask, key: str, asker: Asker) -> Leaving:
        assert self._keyed is not None
        name, reserved = self._reserve(ask, key)
        try:
            return self._keyed.ask(name, reserved, asker)
        except Refused as error:
            reserved.roll_back(counted=error.code not in NOT_ITS_FAULT)
            raise

    async def submit_keyed_task(self, ask: Ask, key: str) -> tuple[Task, bool]:
        assert self._keyed is not None
        name, reserved = self._reserve(ask, key)
        try:
            task, again = await self._keyed.ask_task(name, reserved)
        except BaseException as error:
            reserved.roll_back(counted=not isinstance(error, Refused) or error.code not in NOT_ITS_FAULT)
            raise
        reserved.commit()
        return task, again

    def _reserve(self, ask: Ask, key: str) -> tuple[Keyed, Reserved]:
        """Make a request that is executed only if its key is new. If it is, the store of keys then asks whether
        there is room."""
        desk, request = self._admit(ask, room=False)
        return keyed(key, request), Reserved(request, desk, self.waiters, self.clock)

    async def find_task(self, task_id: str, client_id: str | None, identity: Identity | None = None) -> Task:
        kept = self._keyed if self._keyed is not None and task_id.startswith(MARK) else self._tasks
        return await kept.find(task_id, self._standings.of(client_id, identity)[0])

    def count(self, error: PenstockError, failure: Failure, request_id: str, door: str) -> None:
        known = error.model if error.model in self._desks else ""
        refusal = Refusal(known, failure.code, request_id, error.tenant, self.clock(), failure, door)
        self._observer.refused(refusal)

    def check_quota(self, identity: Identity) -> None:
        tenant, _, account = self._standings.of_identity(identity)
        now = self.clock()
        if account is not None:
            _take(account, now, tenant)
            account.release(now, refused=True)

    def charge(self, identity: Identity) -> None:
        tenant, _, account = self._standings.of_identity(identity)
        if account is not None:
            now = self.clock()
            _take(account, now, tenant)
            account.release(now)

    def describe(self, request_id: str) -> dict[str, object] | None:
        """How a request stands that waits for its answer, found by the id that its asker gave it. It looks at every
        waiter, so only the admin plane may call it."""
        request = self.waiters.find(request_id)
        return None if request is None else self.describe_request(request)

    def describe_request(self, request: Passenger) -> dict[str, object]:
        now = self.clock()
        return {
            "request_id": request.request_id,
            "model": request.model,
            "tenant": request.tenant,
            "tier": request.tier,
            "status": "PENDING" if is_queued(request) else "PROCESSING",
            "age_ms": round((now - request.arrival) * 1e3, 3),
            "deadline_in_ms": round((request.deadline - now) * 1e3, 3),
            "failed_executions": request.executions,
        }

    def _is_loading(self, request: Request) -> bool:
        return self._desks[request.model].loading()

    def _withdraw(self, request: Passenger) -> None:
        if request.flight is not None:
            self.flights.leave(request)
            return
        self._desks[request.model].broker.withdraw(request)

    def _settled(self, replies: Sequence[Reply]) -> None:
        now = self.clock()
        if self._limited:
            for reply in replies:
                account = reply.request.account
                if account is None:
                    continue
                if reply.failure is None:
                    account.release(now)
                else:
                    account.release(now, refused=reply.failure.code in NOT_ITS_FAULT)
        self._observer.answered(replies, now)

    async def drained(self, seconds: float) -> bool:
        """Accept nothing more, and wait until everyone is answered, at most `seconds`. Returns True if everyone
        was."""
        self.draining = True
        try:
            async with asyncio.timeout(seconds):
                await self.waiters.none_left()
        except TimeoutError:
            return False
        return True


def _take(account: Account, now: float, tenant: str) -> None:
    """Count one request against an account. Raises OverQuota if the account refuses it."""
    over_quota = account.take(now)
    if over_quota is not None:
        try:
            raise about(over_quota, "", tenant)
        finally:
            del over_quota
