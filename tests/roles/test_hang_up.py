"""SIGHUP: settings are read again, and nobody who asks notices, except by what they say."""

import json
import signal
import threading
from pathlib import Path
from typing import Any

from server import PATIENT, Server, eventually, held, running
from tier_keys import keys_in_file

MODEL = """
[models.m]
target = "sim:5ms"
workers = 2
max_batch = 8
"""


class Crowd:
    """Several who ask all the time, until the block ends; keeps the status of every answer."""

    def __init__(self, server: Server, number: int = 4) -> None:
        self.statuses: list[int] = []
        self._server = server
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._ask) for _ in range(number)]

    def _ask(self) -> None:
        while not self._over.is_set():
            self.statuses.append(self._server.post("/v1/inference", {"input": "x"}).status)

    def __enter__(self) -> "Crowd":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def goes_on(self) -> None:
        """Wait until each has been answered again."""
        seen = len(self.statuses)
        eventually(lambda: len(self.statuses) >= seen + 2 * len(self._threads))


def hang_up(server: Server, config: str | None = None) -> list[dict[str, Any]]:
    """Write a configuration and send SIGHUP. Returns what the log says of it."""
    if config is not None:
        (server.directory / "penstock.toml").write_text(config)
    before = len(_said(server))
    server.process.send_signal(signal.SIGHUP)
    eventually(lambda: len(_said(server)) > before)
    return _said(server)[before:]


def _said(server: Server) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in server.log_lines() if line.startswith("{")]
    return [line for line in lines if line["logger"] == "penstock.settings"]


def policy(server: Server) -> str:
    page = server.admin("/metrics").body.decode()
    [line] = [line for line in page.splitlines() if line.startswith("penstock_policy_info{")]
    return line


def test_what_can_change_does_under_load_and_the_log_names_what_needs_a_restart() -> None:
    with running(config=f"{PATIENT}{MODEL}") as server, Crowd(server) as crowd:
        crowd.goes_on()
        assert "paced" in policy(server)
        changed = f'{PATIENT}{MODEL}policy = "greedy"\n[limits]\nmax_queue = 77\nmax_body = "10KB"\n'
        hang_up(server, changed)
        eventually(lambda: "greedy" in policy(server))
        eventually(lambda: len(_said(server)) == 3)
        said = {line["message"]: line for line in _said(server)}
        assert list(said) == [
            "limits.max_queue: changed",
            "models.m.policy: changed",
            "limits.max_body: needs a restart",
        ]
        told = said["models.m.policy: changed"]
        assert (told["was"], told["now"]) == ('"paced"', '"greedy"')
        assert told["from"].startswith("penstock.toml:")
        assert server.metric("penstock_queue_limit", model="m") == 77
        in_force = server.admin("/internal/config").json()
        assert in_force["need_restart"] == ["limits.max_body"]
        rows = {row["key"]: row for row in in_force["settings"]}
        assert rows["models.m.policy"] == {
            "key": "models.m.policy",
            "value": '"greedy"',
            "source": told["from"],
        }
        assert rows["limits.max_body"] == {"key": "limits.max_body", "value": '"1MiB"', "source": "default"}
        crowd.goes_on()
        assert server.post("/v1/inference", {"input": "x" * 20_000}).status == 200  # the old max_body
    assert set(crowd.statuses) == {200}


def test_a_file_with_a_mistake_changes_nothing_and_the_log_says_what_check_would() -> None:
    with running(config=MODEL) as server, Crowd(server) as crowd:
        [line] = hang_up(server, f'{MODEL}policy = "greedi"\n[limits]\nmax_queue = 77\n')
        assert line["level"] == "error"
        assert line["message"].startswith(
            "the settings stay as they are: penstock.toml:6: models.m.policy must be"
        )
        [line] = hang_up(server, f'{MODEL}policy = "greedy"\nreserve = 5\n')
        assert "models.m.reserve" in line["message"]
        assert "paced" in policy(server)
        crowd.goes_on()
        (server.directory / "penstock.toml").unlink()
        [line] = hang_up(server)
        assert "needs a restart" in line["message"]  # without a file there is no model
        [line] = hang_up(server, MODEL)
        assert line["message"] == "the settings were read again: nothing has changed"
    assert set(crowd.statuses) == {200}


def test_quotas_and_tiers_of_tenants_change_and_what_was_used_counts() -> None:
    tiers = (
        "[tiers]\ndefault = 'free'\n[tiers.levels.paid]\nrank = 0\n"
        "[tiers.levels.free]\nrank = 1\nrequests_per_minute = {}\n"
    )
    with running(config=MODEL + tiers.format(1000)) as server:

        def ask(tenant: str) -> int:
            return server.post("/v1/inference", {"input": "x", "client_id": tenant}).status

        assert [ask("acme") for _ in range(3)] == [200] * 3
        hang_up(server, MODEL + tiers.format(3))
        assert ask("acme") == 429
        assert ask("bolt") == 200
        hang_up(server, f"{MODEL}{tiers.format(3)}[tenants.acme]\ntier = 'paid'\n")
        assert [ask("acme") for _ in range(5)] == [200] * 5
        hang_up(server, MODEL + tiers.format(3))
        assert ask("acme") == 429


def test_the_quota_of_a_key_that_is_known_changes_too(tmp_path: Path) -> None:
    keys = f'{MODEL}[auth]\nmode = "keys"\nkeys_file = "{tmp_path}/keys.json"\n'
    key = keys_in_file(tmp_path / "keys.json", ["paid"])["paid"]
    usual = "[tiers.levels.enterprise]\nrank = 0\n[tiers.levels.paid]\nrank = 1\n"
    with running(config=keys + usual) as server:
        headers = {"authorization": f"Bearer {key}"}

        def ask() -> int:
            return server.post("/v1/inference", {"input": "x"}, headers).status

        assert [ask(), ask()] == [200, 200]
        hang_up(server, f"{keys}{usual}requests_per_minute = 2\n")
        assert [ask(), ask(), ask()] == [200, 200, 429]
        hang_up(server, keys + usual)
        assert ask() == 200


def test_time_limits_hold_for_requests_that_come_after_the_change(tmp_path: Path) -> None:
    with running(held(tmp_path), config=PATIENT) as server:
        # The held model answers once there is a file in its working directory.
        hang_up(server, '[timeouts]\nqueue = "50ms"\nrequest = "100ms"\nprocessing = "60s"\n')
        late = server.post("/v1/inference", {"input": "x"})
        assert late.status == 504
        assert "0.1 s that timeouts.request allows" in late.json()["message"]
        server.open()


def test_the_level_of_the_log_changes() -> None:
    with running(config=MODEL) as server:
        hang_up(server, f'{MODEL}[server]\nlog_level = "error"\n')
        # From now on only mistakes are told.
        [line] = hang_up(server, f"{MODEL}nonsense = 1\n")
        assert "unknown key 'nonsense'" in line["message"]
