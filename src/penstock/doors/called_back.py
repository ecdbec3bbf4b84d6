"""Askers who want to be called back when their task is over: `callback_url`. The data plane asks here before it
accepts a task, and when it has; `runtime/webhooks.py` then keeps the promise."""

from collections.abc import Callable, Sequence

from penstock.doors.results import told
from penstock.errors import Forbidden, Unacceptable
from penstock.ports import Task
from penstock.ports.webhooks import Webhooks
from penstock.types import Ask


def no_call(task: Task) -> None:
    """Promises nothing."""


def call_for(ask: Ask, webhooks: Webhooks | None) -> Callable[[Task], None]:
    """Returns what promises the call, once there is a task. Raises Refused if its address may not be called."""
    url = ask.callback
    if url is None:
        return no_call
    if webhooks is None:
        raise Forbidden("'callback_url': this server calls no address (webhooks.allow)")
    tenant = (ask.client_id or "") if ask.identity is None else ask.identity.tenant
    webhooks.check(url, tenant)
    return lambda task: webhooks.promise(url, task, tenant, told)


def refuse_call(asks: Sequence[Ask]) -> None:
    """Refuse to promise a call where the answer comes on the connection."""
    if asks[0].callback is not None:
        raise Unacceptable("'callback_url' is for tasks: send it with `Prefer: respond-async`")
