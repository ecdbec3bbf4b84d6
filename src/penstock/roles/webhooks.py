"""Makes the webhooks of a process with clients, as the configuration allows them. The roles that answer clients
call it (`embedded.py`, `gateway.py`)."""

import time
from ipaddress import ip_network

from penstock.config import Config
from penstock.runtime.webhooks import Webhooks


def webhooks_of(config: Config) -> Webhooks | None:
    """Returns the webhooks; None if no address may be called."""
    said = config.webhooks
    if not said.allow:
        return None
    # Imported only now: the HTTP client takes a good part of the start, and most servers call nobody.
    from penstock.adapters.webhooks.courier import HttpCourier

    courier = HttpCourier([ip_network(each) for each in said.private], said.timeout)
    return Webhooks(
        courier,
        said.allow,
        said.secret,
        time.time,
        attempts=said.attempts,
        base=said.base,
        longest=said.max,
        most=said.max_pending,
        share=config.limits.tenant_share,
    )
