"""Which processes `penstock up` starts, and with which command lines. `cli/up.py` makes the plan of its options,
`roles/up.py` checks it, `supervisor.py` carries it out, and `fetched_figures.py` learns from it which processes
there are. Pure: nothing is started or asked here."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.config import Config


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
    workers: int = 1  # at the start
    most_workers: int = 0  # those that are leaving included; 0: the number of workers does not change
    host: str = "127.0.0.1"
    port: int = 8000
    grpc_port: int | None = None  # None: no gRPC; 0: any free one for each gateway
    admin_port: int = 9000
    target: str | None = None
    redis: str | None = None  # the Redis to use; None: one of our own
    shared: Sequence[str] = ()  # options that every role is given
    serving: Sequence[str] = ()  # options that the gateways are given
    working: Sequence[str] = ()  # options that the workers are given
    scaling: Sequence[str] = ()  # options that the autoscaler is given
    gpus: Sequence[str] = ()  # GPUs for the workers, one each, in turn
    environment: Mapping[str, str] = field(default_factory=dict)
    config: Config = field(default_factory=Config)

    @property
    def admin_ports(self) -> range:
        """The ports of all admin planes. They count up from the first: gateways, then batchers, then workers, and
        the autoscaler's is the last."""
        workers = self.most_workers + 1 if self.most_workers else self.workers
        return range(self.admin_port, self.admin_port + self.gateways + self.batchers + workers)

    def parts(self, redis: str) -> list[Part]:
        """Returns the processes that are started at first. `redis`: the URL of the Redis that they meet at."""
        parts = []
        for number in range(self.gateways):
            address = ["--host", self.host, "--port", str(self.port + number)]
            if self.grpc_port is not None:
                address += ["--grpc-port", str(self.grpc_port and self.grpc_port + number)]
            parts.append(self._part("gateway", number, 0, [*address, *self.serving], redis))
        parts += [self._part("batcher", number, self.gateways, [], redis) for number in range(self.batchers)]
        parts += [self.worker(number, redis) for number in range(self.workers)]
        if self.most_workers:
            before = self.gateways + self.batchers + self.most_workers
            parts.append(self._part("autoscaler", 0, before, self.scaling, redis))
        return parts

    def worker(self, number: int, redis: str) -> Part:
        """Returns a worker; the number of the first is 0."""
        target = [self.target] if self.target is not None else []
        gpu = ["--gpus", self.gpus[number % len(self.gpus)]] if self.gpus else []
        own = [*target, *self.working, *gpu]
        return self._part("worker", number, self.gateways + self.batchers, own, redis)

    def _part(self, role: str, number: int, before: int, own: Sequence[str], redis: str) -> Part:
        """`number`: of those of its role, from 0. `before`: how many admin planes have ports before the first of
        this role. `own`: the arguments of this role alone."""
        name, port = f"{role}-{number + 1}", self.admin_ports[before + number]
        program = [sys.executable, "-m", "penstock", role, *own, "--redis", redis, *self.shared]
        return Part(name, role, [*program, "--name", name, "--admin-port", str(port)])
