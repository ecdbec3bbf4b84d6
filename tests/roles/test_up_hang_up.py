"""SIGHUP to `penstock up`: all its processes read their settings again, and nobody who asks is refused."""

import signal
import threading
from pathlib import Path

from up_kit import Up, up

from server import PATIENT, eventually

CONFIG = """
[models.m]
target = "sim:5ms"
policy = "{policy}"
[tiers]
default = "all"
[tiers.levels.all]
rank = 0
requests_per_minute = {quota}
"""


def configure(folder: Path, policy: str, quota: int) -> None:
    (folder / "penstock.toml").write_text(PATIENT + CONFIG.format(policy=policy, quota=quota))


def ask(whole: Up, tenant: str) -> int:
    body = f'{{"input": "x", "client_id": "{tenant}"}}'.encode()
    return whole.ask("gateway-1", "POST", "/v1/inference", body).status


def test_a_whole_installation_takes_over_what_can_change(tmp_path: Path) -> None:
    configure(tmp_path, "paced", 1_000_000)
    with up(None, "--config", str(tmp_path / "penstock.toml")) as whole:
        statuses: list[int] = []
        over = threading.Event()

        def crowd() -> None:
            while not over.is_set():
                statuses.append(ask(whole, "busy"))

        asking = threading.Thread(target=crowd)
        asking.start()
        try:
            configure(tmp_path, "greedy", 500_000)
            whole.process.send_signal(signal.SIGHUP)

            def followed() -> bool:
                page = whole.admin_of("batcher-1", "/metrics").body.decode()
                return 'policy="greedy"' in page

            eventually(followed)
            seen = len(statuses)
            eventually(lambda: len(statuses) > seen + 5)
        finally:
            over.set()
            asking.join()
        assert set(statuses) == {200}
        configure(tmp_path, "greedy", 2)
        whole.process.send_signal(signal.SIGHUP)
        whole.says("tiers.levels.all.requests_per_minute: changed")
        eventually(lambda: ask(whole, "acme") == 429)
        assert whole.end() == 0
