"""A real Prometheus for tests: it scrapes what it is told, and answers queries.

with prometheus({"penstock": [server.admin_url]}) as asked:
    assert asked.query("up")[0].value == 1.0
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlencode, urlsplit
from urllib.request import ProxyHandler, build_opener

from own_ports import free_ports
from server import HUNG, eventually

OPENER = build_opener(ProxyHandler({}))  # a proxy that the environment names is not for this machine
ROOT = Path(__file__).parent.parent
RULES = ROOT / "deploy/prometheus/penstock.rules.yaml"


def command(name: str) -> str:
    """Where Prometheus' commands are: on the PATH, or where `make test` unpacks them."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.prefix) / "apt/usr/bin"))
    assert found, f"no {name}: tools/unpacked-package .venv/apt prometheus prometheus promtool"
    return found


@dataclass(frozen=True)
class Sample:
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True)
class Prometheus:
    url: str

    def query(self, expression: str) -> list[Sample]:
        """The samples that an expression has now."""
        found = self._ask("/api/v1/query", query=expression)["result"]
        return [Sample(each["metric"], float(each["value"][1])) for each in found]

    def exemplars(self, expression: str) -> list[Sample]:
        found = self._ask("/api/v1/query_exemplars", query=expression, start="0", end="9999999999")
        return [
            Sample(each["labels"], float(each["value"])) for series in found for each in series["exemplars"]
        ]

    def groups(self) -> Any:
        """The groups of rules, with how each rule fares."""
        return self._ask("/api/v1/rules")["groups"]

    def _ask(self, path: str, **words: str) -> Any:
        with OPENER.open(f"{self.url}{path}?{urlencode(words)}", timeout=HUNG) as answer:
            return json.load(answer)["data"]

    def answers(self) -> bool:
        try:
            with OPENER.open(f"{self.url}/-/ready", timeout=HUNG) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@contextmanager
def prometheus(jobs: Mapping[str, Sequence[str]], every: str = "250ms") -> Iterator[Prometheus]:
    """Started, with the rules that we deliver. `jobs`: the admin planes of each."""
    with TemporaryDirectory(prefix="prometheus-") as folder:
        rules = Path(folder) / "rules.yaml"
        rules.write_text(re.sub(r"interval: \w+", f"interval: {every}", RULES.read_text()))
        config = {
            "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": every},
            "rule_files": [str(rules)],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": [urlsplit(url).netloc for url in urls]}]}
                for job, urls in jobs.items()
            ],
        }
        file = Path(folder) / "prometheus.yaml"
        file.write_text(json.dumps(config))  # which is YAML too
        address = f"127.0.0.1:{free_ports(1)}"
        with (Path(folder) / "log").open("wb") as log, subprocess.Popen(
            [
                command("prometheus"), f"--config.file={file}", f"--storage.tsdb.path={folder}/data",
                f"--web.listen-address={address}", "--enable-feature=exemplar-storage",
            ],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        ) as process:  # fmt: skip
            try:
                asked = Prometheus(f"http://{address}")
                eventually(asked.answers)
                yield asked
            finally:
                process.terminate()
