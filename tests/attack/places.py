"""Servers to attack: real processes, and what they hold."""

import resource
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

from up_kit import up

from certificates import Authority
from grpc_calls import address_of
from server import HUNG, call, eventually, running
from stage import Stage
from tier_keys import tenants_in_file, tenants_in_redis

PROBED_WITHIN = 1.0  # seconds, as orchestrators have it unless told otherwise
PAGE = resource.getpagesize()
VICTIM, ATTACKER = "victim", "attacker"
TENANTS = {VICTIM: "paid", ATTACKER: "paid"}  # one tier: nobody is served before the other


@dataclass(slots=True)
class Place:
    """A stage that serves."""

    stage: Stage
    url: str
    admin_url: str
    pid: int
    log: Callable[[], Sequence[str]]  # its lines so far
    keys: dict[str, str] = field(default_factory=dict)
    authority: Path | None = None
    redis_url: str = ""
    grpc: str = ""  # host:port, if its stage has such a port

    @property
    def tls(self) -> ssl.SSLContext | None:
        """What to connect with, where its URL is https://."""
        return ssl.create_default_context(cafile=self.authority) if self.authority else None

    def memory(self) -> int:
        """Bytes of the server and of all that it has started: user code and Valkey too."""
        return sum(_resident(pid) for pid in _family(self.pid))

    def alive(self) -> bool:
        """Whether a probe is answered as an orchestrator wants it."""
        try:
            return call(self.admin_url, "GET", "/livez", timeout=PROBED_WITHIN).status == 200
        except (OSError, HTTPException):
            return False

    def serves(self) -> bool:
        """Whether the victim is let in: a new key is known within two seconds."""
        head = {"content-type": "application/json"}
        if self.keys:
            head["authorization"] = f"Bearer {self.keys[VICTIM]}"
        body = b'{"input": "good:first"}'
        return call(self.url, "POST", "/v1/inference", body, head, HUNG, self.tls).status == 200


@contextmanager
def opened(stage: Stage) -> Iterator[Place]:
    with TemporaryDirectory(prefix="penstock-attack-") as folder, ExitStack() as stack:
        yield stack.enter_context((_up if stage.form == "up" else _serve)(stage, Path(folder)))


@contextmanager
def _serve(stage: Stage, folder: Path) -> Iterator[Place]:
    config, keys, authority = stage.config, dict[str, str](), None
    if stage.keys:
        keys = tenants_in_file(folder / "keys", TENANTS)
        config += f"\n[auth]\nmode = 'keys'\nkeys_file = '{folder / 'keys'}'\n"
    if stage.tls:
        signer = Authority()
        authority, pair = signer.save(folder), signer.issue(folder, "server")
        config += f"\n[tls]\ncertificate = '{pair.certificate}'\nkey = '{pair.key}'\n"
    with running(stage.target, "--workers", str(stage.workers), *stage.options, config=config) as server:
        place = Place(
            stage, server.url, server.admin_url, server.process.pid, server.log_lines, keys, authority,
            grpc=address_of(server) if "--grpc-port" in stage.options else "",
        )  # fmt: skip
        eventually(place.serves)
        yield place


@contextmanager
def _up(stage: Stage, folder: Path) -> Iterator[Place]:
    assert not stage.tls, "attacks on TLS meet `penstock serve`: the edge is the same"
    auth = "\n[auth]\nmode = 'keys'\n" if stage.keys else ""
    (folder / "penstock.toml").write_text(stage.config + auth)
    options = ("--config", str(folder / "penstock.toml"), *stage.options)
    with up(stage.target, *options, workers=stage.workers) as whole:
        redis_url = whole.says("  redis ").split()[1]
        keys = tenants_in_redis(redis_url, TENANTS) if stage.keys else {}
        place = Place(
            stage, whole.ports["gateway-1"], whole.admins["gateway-1"], whole.process.pid, lambda: whole.lines,
            keys, redis_url=redis_url,
        )  # fmt: skip
        eventually(place.serves)
        yield place
        assert whole.end() == 0, whole.lines


def _family(pid: int) -> Iterator[int]:
    """It and those who descend from it. To look through all processes of the machine would disturb the victim."""
    yield pid
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [child for thread in threads for child in (thread / "children").read_text().split()]
    except OSError:
        return  # it has ended since
    for child in children:
        yield from _family(int(child))


def _resident(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE
    except OSError:
        return 0  # it has ended since
