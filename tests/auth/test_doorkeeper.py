"""Requests are let in when the keys are known, and not before."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from penstock.auth.authenticator import Authenticator
from penstock.auth.doorkeeper import Doorkeeper
from penstock.auth.keys import KeyRing, make_key
from penstock.auth.records import KeyRecord
from penstock.errors import StoreDown, UserMistake
from penstock.loops import Loops
from penstock.testing import run_virtual
from redis_servers import redis_server
from server import PENSTOCK
from token_kit import NOW, TIERS

KEY, RECORD = make_key("acme", "paid", NOW)


class Late:
    """A store that is away for the first few times it is asked."""

    def __init__(self, times: int, then: Exception | None = None) -> None:
        self._times, self._then = times, then
        self.closed = False

    async def version(self) -> object:
        if self._times:
            self._times -= 1
            raise StoreDown("not there yet", retry_after=1.0)
        if self._then is not None:
            raise self._then
        return 1

    async def load(self) -> Sequence[KeyRecord]:
        return [RECORD]

    async def add(self, record: KeyRecord) -> None:
        raise NotImplementedError

    async def revoke(self, key_id: str) -> KeyRecord:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True


def test_a_store_that_is_not_there_yet_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        ring, store = KeyRing(TIERS), Late(3)
        loops = Loops()
        keeper = Doorkeeper(Authenticator(ring), store, ring, None)
        await keeper.open(loops)
        assert keeper.authenticator.identify({b"x-api-key": KEY.encode()}).tenant == "acme"
        assert [task.get_name() for task in loops.cancel()] == ["the watch over API keys"]
        await keeper.close()
        assert store.closed

    run_virtual(scene())
    assert [record.getMessage() for record in caplog.records].count("waiting for the API keys") == 3


def test_a_mistake_is_not_waited_for() -> None:
    async def scene() -> None:
        ring = KeyRing(TIERS)
        keeper = Doorkeeper(Authenticator(ring), Late(0, UserMistake("no such thing")), ring, None)
        with pytest.raises(UserMistake, match="no such thing"):
            await keeper.open(Loops())

    run_virtual(scene())


def test_a_gateway_whose_keys_in_redis_are_none_says_so_and_ends(tmp_path: Path) -> None:
    with redis_server() as redis:
        redis.command("HSET", "{penstock:keys}", "a", "{}")
        redis.command("SET", "{penstock:keys}:stamp", "1")
        command = [str(PENSTOCK), "gateway", "--redis", redis.url, "--auth", "keys", "--port", "0"]
        ended = subprocess.run(
            [*command, "--admin-port", "0"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert ended.returncode == 2
    assert "holds no API keys" in ended.stderr
    assert "Traceback" not in ended.stderr
