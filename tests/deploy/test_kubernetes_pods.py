"""The pods of deploy/kubernetes as processes here: started with the very arguments and variables of their
manifests, asked by their probes, and ended by their hooks."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

import pytest
from manifests import SECRET, Pod, of_kind, pods

from installation import Member
from penstock.cli.app import COMMANDS
from redis_servers import VALKEY, redis_server
from server import PENSTOCK, Answer, call, eventually

# Production with KEDA: there the autoscaler needs no API server.
OVERLAY = "keda"
ROLES = [role for role in ("gateway", "batcher", "worker", "autoscaler") if role in COMMANDS]
BEARER = {"authorization": f"Bearer {SECRET['admin-token']}"}


@dataclass
class Running:
    """A pod of which there is a process."""

    pod: Pod
    process: Member

    def probe(self, name: str) -> Answer:
        """What the kubelet is answered, which has no token."""
        asked = self.pod.container[name]["httpGet"]
        assert self.pod.port(asked["port"]) == self.pod.port("admin")
        return call(self.process.admin_url, "GET", asked["path"])

    def well(self) -> bool:
        return all(
            self.probe(name).status == 200 for name in ("startupProbe", "livenessProbe", "readinessProbe")
        )

    def pre_stop(self) -> "subprocess.CompletedProcess[str]":
        command = self.pod.container["lifecycle"]["preStop"]["exec"]["command"]
        assert command[0] == "penstock"
        return subprocess.run(
            [str(PENSTOCK), *command[1:]],
            env={**self.process.environment, "PENSTOCK_ADMIN": self.process.admin_url},
            capture_output=True, text=True, check=False,
        )  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Running]]:
    """One pod of each role. Only addresses differ: ports are free ones, and Valkey is one of the tests."""
    folder = tmp_path_factory.mktemp("pods")
    found = {pod.role: pod for pod in pods(OVERLAY) if pod.ours}
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")}
    with ExitStack() as stack:
        (valkey,) = [pod for pod in pods(OVERLAY) if pod.role == "valkey"]
        words = [word for word in valkey.container["args"][1:] if word not in ("--dir", "/data")]
        expanded = [
            valkey.environment()["REDISCLI_AUTH"] if word == "$(REDISCLI_AUTH)" else word for word in words
        ]
        redis = stack.enter_context(redis_server(VALKEY, *expanded))
        running: dict[str, Running] = {}
        for number, role in enumerate(ROLES):
            pod = found[role]
            files = {path: folder / f"{role}.toml" for path, _ in pod.files()}
            for path, text in pod.files():
                files[path].write_text(text)
            environment = pod.environment()
            environment["PENSTOCK_REDIS_URL"] = environment["PENSTOCK_REDIS_URL"].replace(
                "penstock-valkey:6379", f"127.0.0.1:{redis.port}"
            )
            environment |= {"PENSTOCK_SERVER_PORT": "0", "PENSTOCK_SERVER_ADMIN_PORT": "0"}
            command = [str(PENSTOCK), *(str(files.get(word, word)) for word in pod.container["args"])]
            member = Member(role, number, folder, command, {**inherited, **environment})
            stack.callback(member.end)
            member.launch()
            running[role] = Running(pod, member)
        for each in running.values():
            each.process.wait()
        yield running


def test_each_pod_answers_its_probes_without_a_token_and_all_else_only_with_it(
    cluster: dict[str, Running],
) -> None:
    for each in cluster.values():
        eventually(each.well)
        for path in ("/metrics", "/internal/health"):
            assert call(each.process.admin_url, "GET", path).status == 401
            assert call(each.process.admin_url, "GET", path, headers=BEARER).status == 200
        assert call(each.process.admin_url, "POST", "/drain").status == 401


@pytest.mark.skipif("autoscaler" not in ROLES, reason="there is no `penstock autoscaler` yet")
def test_the_autoscaler_tells_keda_where_it_asks_how_many_workers_there_should_be(
    cluster: dict[str, Running],
) -> None:
    (scaled,) = of_kind(OVERLAY, "ScaledObject")
    (trigger,) = scaled["spec"]["triggers"]
    said = trigger["metadata"]
    address = urlsplit(said["url"])
    autoscaler = cluster["autoscaler"]
    assert (address.hostname, address.port) == (
        f"{autoscaler.pod.name}.penstock",
        autoscaler.pod.port("admin"),
    )
    asked = partial(call, autoscaler.process.admin_url, "GET", address.path, headers=BEARER)
    eventually(lambda: asked().status == 200)
    assert asked().json()[said["valueLocation"]] == 1


def test_a_client_with_a_key_is_served(cluster: dict[str, Running]) -> None:
    gateway = cluster["gateway"].process
    assert call(gateway.url, "POST", "/v1/inference", b'{"input": "hello"}').status == 401
    made = subprocess.run(
        [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid", "--redis",
         gateway.environment["PENSTOCK_REDIS_URL"]],
        cwd=gateway.folder, env=dict(gateway.environment), capture_output=True, text=True, check=True,
    )  # fmt: skip
    key = made.stdout.split()[0]
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    eventually(
        lambda: call(gateway.url, "POST", "/v1/inference", b'{"input": "hello"}', headers).status == 200
    )
    assert call(gateway.url, "GET", "/health").status == 200


def test_the_hook_waits_until_nothing_is_open_and_the_signal_then_ends_the_process(
    cluster: dict[str, Running],
) -> None:
    for role in reversed(ROLES):
        each = cluster[role]
        done = each.pre_stop()
        assert (done.returncode, done.stdout) == (0, "drained\n"), done.stderr
        assert each.probe("livenessProbe").status == 200
        ready = each.probe("readinessProbe")
        assert (ready.status, ready.body) == (503, b"draining")
        assert each.pre_stop().returncode == 0  # asked again, it says the same
        assert each.process.stop() == 0
