"""Every background loop of every role: whatever it raises, it comes back, and the process lives on."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

import penstock
from certificates import Authority
from penstock import loops as loops_module
from penstock.config import Config, load
from penstock.loops import Loops
from penstock.roles.batcher import batcher
from penstock.roles.embedded import embedded
from penstock.roles.gateway import gateway
from penstock.roles.worker import worker
from redis_servers import becomes

SOURCE = Path(penstock.__file__).parent
# Where else tasks and threads are made, and why those are no loops.
OTHERS = {
    "adapters/backends/beside.py": "the writer of user code's process, whose end is its death",
    "adapters/backends/child.py": "the heartbeat of user code's process, whose end is its death",
    "adapters/api_keys/postgres.py": "one question to the database",
    "adapters/ledger/postgres.py": "one question to the database",
    "adapters/redis/link/connect.py": "errands that nobody's cancellation may cut short",
    "auth/provider.py": "one fetch, which the loop awaits",
    "cli/up.py": "what a command waits for",
    "doors/conversation.py": "one message that takes a while to read",
    "doors/data_plane.py": "one request each",
    "loops.py": "the helper itself",
    "server/admin_plane.py": "one request each",
    "cluster/inquiries.py": "one answer",
    "cluster/lookout.py": "one answer",
    "admin/stream.py": "what those who look share; it ends with them",
    "server/live_settings.py": "one reading of the settings",
    "server/drain.py": "the one drain of a process, which ends with it",
    "server/life.py": "what a process waits for at its end",
    "server/listen.py": "one connection each; and the admin plane, without which there is no /livez to fail",
    "cluster/unbroken.py": "one request each",
    "runtime/handed.py": "one batch each",
    "runtime/jobs/runner.py": "one job each, which is led anew if it stops",
    "runtime/webhooks.py": "one webhook each",
    "roles/serve.py": "what a command shows",
    "installation/supervisor.py": "the supervisor of processes, which is no server",
    "installation/own_store.py": "the supervisor of a process, which is no server",
}
NO_SERVERS = ("bench", "client")  # rooms of programs that ask a server
ROLES = ("gateway", "batcher", "worker", "embedded")
EVERY = {
    "gateway": {
        "the diary", "the mailbox", "the mailbox: reading", "the mailbox: keeping the box", "the registry",
        "what is set aside", "the watch over API keys", "the fetching of token keys", "the ledger's reader",
        "the ledger's reader: reading", "the quotas", "the shared cache", "the shared cache: looking up",
        "the shared cache: writing", "the publisher", "the publisher: sending",
        "the publisher: looking for lost shards", "the publisher: listening", "the watch over certificates",
        "the batches of files", "the tidying of files",
    },
    "batcher": {
        "the diary", "the mailbox", "the mailbox: reading", "the mailbox: keeping the box", "the registry",
        "what is set aside", "the dispatcher", "the dispatcher: keeping records", "the dead letters",
        "the watchdog", "the leases", "the leases: balancing", "the leases: watching over their end",
        "the leases: renewing late ones", "the intake", "the intake: acknowledging", "the intake: reading",
        "the borrower of echo", "the borrower of echo: borrowing", "the borrower of echo: giving back",
    },
    "worker": {
        "the diary", "the mailbox", "the mailbox: reading", "the mailbox: keeping the box", "the registry",
        "what is set aside", "the dock of echo", "the slot of echo",
    },
    "embedded": {
        "the diary", "the slot of echo", "the watch over API keys", "the fetching of token keys", "the reloader",
        "the watch over certificates", "the batches of files", "the tidying of files",
    },
}  # fmt: skip


def test_tasks_and_threads_are_made_by_the_helper_or_are_known_to_be_no_loops() -> None:
    made = re.compile(r"\b(create_task|ensure_future|TaskGroup|Thread)\(")
    found = {file.relative_to(SOURCE) for file in SOURCE.rglob("*.py") if made.search(file.read_text())}
    assert {str(file) for file in found if file.parts[0] not in NO_SERVERS} == set(OTHERS)


class Thrown(Exception):
    pass


class Traps:
    """Every loop that is kept while this is in force, and how to make it raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.starts: dict[str, int] = {}
        self._sprung: dict[str, asyncio.Event] = {}
        keep, traps = Loops.keep, self

        def trapped(loops: Loops, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
            full = traps.known_as(loops._outer + name)
            keep(loops, name, lambda: traps._run(full, make))

        monkeypatch.setattr(Loops, "keep", trapped)

    def known_as(self, name: str) -> str:
        """Whatever the process that it is in is called."""
        return re.sub(r"the slot \S+", "the slot of echo", name)

    async def _run(self, name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.starts[name] = self.starts.get(name, 0) + 1
        sprung = self._sprung[name] = asyncio.Event()
        work, trap = asyncio.ensure_future(make()), asyncio.ensure_future(sprung.wait())
        try:
            await asyncio.wait([work, trap], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                work.result()
            raise Thrown(name)
        finally:
            for task in (work, trap):
                task.cancel()
            await asyncio.gather(work, trap, return_exceptions=True)

    async def throw(self, name: str) -> None:
        """Returns when it has come back."""
        starts = self.starts[name]
        self._sprung[name].set()
        await becomes(lambda: self.starts[name] > starts)


def config_of(folder: Path, url: str) -> Config:
    pair = Authority().issue(folder, "server")
    (folder / "app.py").write_text("def echo(inputs):\n    return inputs\n")
    keys = folder / "keys.json"
    keys.touch(mode=0o600)
    keys.write_text('{"version": 1, "keys": []}')
    (folder / "penstock.toml").write_text(f"""
[redis]
url = "{url}"
namespace = "loops-{uuid4().hex[:8]}"
[auth]
mode = "keys+jwt"
keys_file = "{keys}"
[auth.jwt]
jwks_url = "http://127.0.0.1:9/none"
issuer = "https://issuer.test"
audience = ["us"]
[tls]
certificate = "{pair.certificate}"
key = "{pair.key}"
[ledger]
url = "sqlite:///{folder / "ledger.db"}"
spool = "{folder / "spool"}"
[files]
directory = "{folder / "files"}"
[models.echo]
target = "{folder / "app.py"}:echo"
""")
    return load(folder / "penstock.toml", {}, {})


MAKE: dict[str, Callable[[Config, asyncio.AbstractEventLoop], Any]] = {
    "gateway": gateway,
    "batcher": batcher,
    "worker": worker,
    "embedded": lambda config, loop: embedded(config, loop, reload=True),
}


@asynccontextmanager
async def living(role: str, config: Config) -> AsyncIterator[Any]:
    """A role in this process."""
    member = MAKE[role](config, asyncio.get_running_loop())
    try:
        member.start()
        await member.started
        if member.edge is not None:
            member.edge.tls.start()
        yield member
    finally:
        if member.edge is not None:
            member.edge.tls.close()
        await member.stop()


@pytest.mark.parametrize("role", ROLES)
def test_every_loop_of_a_role_comes_back_and_the_role_lives(
    role: str, tmp_path: Path, redis_urls: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops_module, "FIRST_WAIT", 0.01)  # twenty loops that end in turn, and wait for that
    config, every = config_of(tmp_path, redis_urls["valkey"]), EVERY[role]

    async def body() -> None:
        async with AsyncExitStack() as stack:
            if role == "batcher":  # which borrows for models that somebody has announced
                await stack.enter_async_context(living("worker", config))
            traps = Traps(monkeypatch)
            member = await stack.enter_async_context(living(role, config))
            await becomes(lambda: every <= traps.starts.keys())
            assert traps.starts.keys() == every, "a loop that this test does not know"
            for name in sorted(every, key=lambda name: (-name.count(": "), name)):  # parts before the whole
                await traps.throw(name)
                assert not member.dead_loops(), name
            restarted = {traps.known_as(name) for name in member.inside.loops.restarts}
            assert restarted == every - {"the watch over certificates"}  # which is the edge's

    asyncio.run(body())
