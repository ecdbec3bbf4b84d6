"""Checks and makes the installation of `penstock up`, for `cli/up.py`; `installation/` runs it. What is checked is
what would otherwise fail in each process anew. For that the ports are bound for a moment."""

from collections.abc import Callable
from dataclasses import replace

from penstock.installation.plan import UpPlan
from penstock.installation.supervisor import Installation, Tell
from penstock.roles.backends import backend_maker
from penstock.server.listen import bind


def check(plan: UpPlan) -> None:
    """Raises UserMistake for a mistake that would keep a part from starting, before anything is started."""
    for name, model in plan.config.models.items():
        backend_maker(name, model)
    for port in range(plan.port, plan.port + plan.gateways):
        bind(plan.host, port, "--port or --host").close()
    if plan.grpc_port:
        for port in range(plan.grpc_port, plan.grpc_port + plan.gateways):
            bind(plan.host, port, "--grpc-port or --host").close()
    for port in plan.admin_ports:
        bind(plan.config.server.admin_host, port, "--admin-port").close()


def installation(plan: UpPlan, say: Callable[[str, str], None]) -> Installation:
    """Returns the installation. `say`: called with a part's name and each line that it prints."""

    def telling(redis: str) -> Tell:
        # Imported only now, because not every installation has the Redis library.
        from penstock.adapters.redis.bus.obituary import Obituaries
        from penstock.roles.redis import redis_settings

        return Obituaries(replace(redis_settings(plan.config), url=redis)).tell

    return Installation(plan, say, telling)
