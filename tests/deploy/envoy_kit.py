"""A real Envoy for tests, with the files of deploy/envoy: only folders and ports are others.

with envoy(tmp_path, {"zone-a": [url], "zone-b": [other]}) as edge:
    call(edge.url, "GET", "/health", tls=edge.tls)
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

import yaml

from certificates import Authority
from own_ports import free_ports
from server import Answer, call, eventually
from token_kit import jwk

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "envoy"
FILES = ("envoy.yaml", "gateways.yaml", "gateways-grpc.yaml", "envoys.yaml", "certificate.yaml")
ENVOY = str(Path(sys.executable).with_name("envoy"))

Zones = Mapping[str, Sequence[str]]  # the URLs of the gateways in each


def installed(
    folder: Path, changes: Mapping[str, str] | None = None, ports: tuple[int, int] = (8443, 9901)
) -> Path:
    """The files in this folder, as if it were /etc/envoy; returns the first. `changes`: of its text."""
    for name in FILES:
        text = (FOLDER / name).read_text()
        for old, new in {
            **(changes or {} if name == "envoy.yaml" else {}),
            "/etc/envoy/": f"{folder}/",
            "address: 0.0.0.0, port_value: 8443": f"address: 127.0.0.1, port_value: {ports[0]}",
            "port_value: 9901": f"port_value: {ports[1]}",
        }.items():
            assert old in text or old not in (changes or {}), f"{old!r} is not in {name}"
            text = text.replace(old, new)
        (folder / name).write_text(text)
    (folder / "jwks.json").write_text(json.dumps({"keys": [jwk("RS256", "r0")]}))
    return folder / "envoy.yaml"


@dataclass
class Edge:
    url: str
    admin_url: str
    tls: SSLContext
    folder: Path
    authority: Authority
    process: "subprocess.Popen[bytes]"

    def gateways(self, kind: str = "gateways") -> dict[str, dict[str, Any]]:
        """What Envoy knows of each, by its address."""
        said = json.loads(call(self.admin_url, "GET", "/clusters?format=json").body)["cluster_statuses"]
        (cluster,) = (each for each in said if each["name"] == kind)
        found = {}
        for host in cluster.get("host_statuses", ()):
            where = host["address"]["socket_address"]
            stats = {each["name"]: int(each.get("value", 0)) for each in host["stats"]}
            found[f"http://{where['address']}:{where['port_value']}"] = {**host["health_status"], **stats}
        return found

    def healthy(self, kind: str = "gateways") -> set[str]:
        """The addresses of those that are sent to."""
        bad = {"failed_active_health_check", "failed_outlier_check", "pending_active_hc"}
        found = self.gateways(kind).items()
        return {url for url, said in found if not any(said.get(name) for name in bad)}

    def count(self, name: str) -> int:
        """A figure of Envoy's own, by its whole name; 0 if it has none."""
        lines = call(self.admin_url, "GET", f"/stats?filter=^{name}$").body.decode().split("\n")
        return sum(int(line.rpartition(" ")[2]) for line in lines if line)

    def log(self) -> list[dict[str, Any]]:
        """The lines of its access log."""
        call(self.admin_url, "POST", "/reopen_logs")
        return [
            json.loads(line)
            for line in (self.folder / "log").read_text().splitlines()
            if line.startswith("{")
        ]

    def ask(self, body: bytes, token: str = "", **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if token:
            named["authorization"] = f"Bearer {token}"
        return call(
            self.url,
            "POST",
            "/v1/inference",
            body,
            {"content-type": "application/json", **named},
            tls=self.tls,
        )


def _endpoints(cluster: str, zones: Zones) -> str:
    """A file that says where the members of a cluster are."""

    def endpoint(url: str) -> dict[str, Any]:
        parts = urlsplit(url)
        where = {"address": parts.hostname, "port_value": parts.port}
        return {"endpoint": {"address": {"socket_address": where}}}

    resource = {
        "@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment",
        "cluster_name": cluster,
        "endpoints": [
            {"locality": {"zone": zone}, "lb_endpoints": [endpoint(url) for url in urls]}
            for zone, urls in zones.items()
        ],
    }
    return yaml.safe_dump({"resources": [resource]})


@contextmanager
def envoy(
    folder: Path,
    zones: Zones,
    *,
    grpc: Sequence[str] = (),
    zone: str = "zone-a",
    changes: Mapping[str, str] | None = None,
) -> Iterator[Edge]:
    """An Envoy in this zone before these gateways, once it has found them healthy. `grpc`: the URLs where gateways
    of this zone speak gRPC."""
    folder.mkdir(exist_ok=True)
    port = free_ports(2)
    config = installed(folder, changes, (port, port + 1))
    authority = Authority()
    pair = authority.issue(folder, "tls")
    pair.certificate.rename(folder / "tls.crt")
    pair.key.rename(folder / "tls.key")
    envoys = {name: [f"http://127.0.0.{number + 2}:1"] for number, name in enumerate(zones)}
    for cluster, places in {"gateways": zones, "gateways-grpc": {zone: grpc}, "envoys": envoys}.items():
        (folder / f"{cluster}.yaml").write_text(_endpoints(cluster, places))
    command = [
        ENVOY, "-c", str(config), "--service-zone", zone, "--service-node", "edge", "--concurrency", "1",
        "--disable-hot-restart", "--log-level", "warning",
    ]  # fmt: skip
    variables = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen(
            command, env=variables, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        ) as process,
    ):
        edge = Edge(
            f"https://127.0.0.1:{port}",
            f"http://127.0.0.1:{port + 1}",
            authority.trusting(),
            folder,
            authority,
            process,
        )
        try:
            eventually(lambda: _ready(edge))
            wanted = {url for urls in zones.values() for url in urls}
            eventually(lambda: edge.healthy() == wanted and edge.healthy("gateways-grpc") == set(grpc))
            yield edge
            assert process.poll() is None, (folder / "log").read_text()
        finally:
            process.kill()


def _ready(edge: Edge) -> bool:
    assert edge.process.poll() is None, (edge.folder / "log").read_text()
    try:
        return call(edge.admin_url, "GET", "/ready").status == 200
    except OSError:
        return False
