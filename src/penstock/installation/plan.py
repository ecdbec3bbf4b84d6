"""Which processes `penstock up` starts, and with which command lines. `penstock up` makes the plan of its options,
and `supervisor.py` carries it out. Nothing is started here."""

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from penstock.config import Config
from penstock.server.fetched_figures import fetched
from penstock.server.figures import Pages


@dataclass(frozen=True, slots=True)
class Part:
    """One process of the installation."""

    name: str
    role: str
    command: Sequence[str]


@dataclass(slots=True)
class UpPlan:
    """What `penstock up` was asked for."""

    gateways: int = 1
    batchers: int = 1
    workers: int = 1
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None  # None: no gRPC; 0: any free one for each gateway
    admin_port: int = 9000
    target: str | None = None
    redis: str | None = None  # the Redis to use; None: one of our own
    shared: Sequence[str] = ()  # options that every role is given
    serving: Sequence[str] = ()  # options that the gateways are given
    working: Sequence[str] = ()  # options that the workers are given
    gpus: Sequence[str] = ()  # GPUs for the workers, one each, in turn
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Config = field(default_factory=Config)

    @property
    def admin_ports(self) -> range:
        """The ports of all admin planes. They count up from the first: gateways, then batchers, then workers."""
        return range(self.admin_port, self.admin_port + self.gateways + self.batchers + self.workers)

    def parts(self, redis: str) -> list[Part]:
        program = [sys.executable, "-m", "penstock"]
        common = ["--redis", redis, *self.shared]
        admin = iter(self.admin_ports)
        parts = []
        for number in range(self.gateways):
            address = ["--host", self.host, "--port", str(self.port + number)]
            if self.grpc_port is not None:
                address += ["--grpc-port", str(self.grpc_port and self.grpc_port + number)]
            parts.append(("gateway", number, [*address, *self.serving]))
        parts += [("batcher", number, []) for number in range(self.batchers)]
        target = [self.target] if self.target is not None else []
        for number in range(self.workers):
            gpu = ["--gpus", self.gpus[number % len(self.gpus)]] if self.gpus else []
            parts.append(("worker", number, [*target, *self.working, *gpu]))
        return [
            Part(
                name := f"{role}-{number + 1}",
                role,
                [*program, role, *own, *common, "--name", name, "--admin-port", str(next(admin))],
            )
            for role, number, own in parts
        ]


def figures_of(plan: UpPlan, config: Config) -> Callable[[], Awaitable[Pages]]:
    """Returns a function that fetches the metrics pages of all parts, for the line of figures."""
    server, host = config.server, config.server.admin_host
    scheme = "https" if config.tls.admin else "http"
    planes = [f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}" for port in plan.admin_ports]

    async def fetch() -> Pages:
        pages = await fetched(planes, server.admin_token)
        first, last = plan.gateways, plan.gateways + plan.batchers
        return Pages(pages[:first], pages[first:last], pages[last:])

    return fetch
