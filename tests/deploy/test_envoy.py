"""The files of deploy/envoy, with the real Envoy before real gateways."""

import re
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy_kit import ENVOY, ROOT, Edge, envoy, installed

from grpc_calls import INFER, OPTIONS, address_of, asked, method
from server import PATIENT, Server, call, eventually, held, running
from token_kit import pem, sign

ISSUER, AUDIENCE = "https://issuer.example", "penstock"
KEY = "/etc/penstock/issuer.pem"
# What the documents say is to be set at the gateways.
BEHIND: str
(BEHIND,) = re.findall(r"```toml\n(.*?)```", (ROOT / "docs/kubernetes.md").read_text(), re.DOTALL)
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def token(**claims: object) -> str:
    said: dict[str, Any] = {"iss": ISSUER, "aud": AUDIENCE, **claims}
    return sign("RS256", "r0", at=time.time(), **said).decode()


def behind(changes: Mapping[str, str]) -> str:
    """The configuration of a gateway behind Envoy, with some of it changed."""
    text = BEHIND
    for old, new in changes.items():
        assert old in text
        text = text.replace(old, new)
    return text


def serving(
    folder: Path,
    target: str = "sim:1ms",
    more: str = PATIENT,
    *,
    status: int = 429,
    options: Sequence[str] = (),
) -> AbstractContextManager[Server]:
    """A gateway that ends at once: nobody is sent to it any more by then."""
    key = folder / "key.pem"
    key.write_bytes(pem("RS256"))
    changes = {
        KEY: str(key),
        "overload_status = 429": f"overload_status = {status}",
        "drain_grace": "# drain_grace",
    }
    return running(target, *options, config=behind(changes) + more)


@pytest.fixture(scope="module")
def edge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Edge]:
    """Before one gateway in each of two zones."""
    folder = tmp_path_factory.mktemp("edge")
    with (
        serving(folder) as near,
        serving(folder) as far,
        envoy(folder / "envoy", {"zone-a": [near.url], "zone-b": [far.url]}) as found,
    ):
        yield found


def test_envoy_takes_the_configuration_as_it_is_but_for_folders(tmp_path: Path) -> None:
    words = [
        "--mode",
        "validate",
        "-c",
        str(installed(tmp_path)),
        "--service-node",
        "edge-1",
        "--service-zone",
        "zone-a",
    ]
    done = subprocess.run([ENVOY, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "eprecated" not in done.stderr


def test_clients_of_http_1_and_of_http_2_are_served_and_their_id_and_trace_go_through(edge: Edge) -> None:
    answer = edge.ask(b'{"input": "hello"}', token(), x_request_id="mine-1", traceparent=PARENT)
    assert (answer.status, answer.json()["output"], answer.json()["request_id"]) == (200, "hello", "mine-1")
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["traceparent"].split("-")[1] == PARENT.split("-")[1]
    assert "infer;dur=" in answer.headers["server-timing"]
    made = edge.ask(b'{"input": "hello"}', token())
    assert made.headers["x-request-id"] == made.json()["request_id"]


def test_http_2_is_spoken_to_whoever_offers_it(edge: Edge) -> None:
    for version, name in (("--http2", "2"), ("--http1.1", "1.1")):
        words = [
            "curl", "-sS", version, "--cacert", str(edge.authority.save(edge.folder)), f"{edge.url}/v1/inference",
            "-H", f"Authorization: Bearer {token()}", "-H", "content-type: application/json",
            "-d", '{"input": "hello"}',
            "-o", "/dev/null", "-w", "%{http_version} %{http_code}",
        ]  # fmt: skip
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        assert done.stdout == f"{name} 200"


def test_grpc_goes_to_its_own_port_with_the_deadline_of_its_client(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "sim:1ms", PATIENT, options=("--grpc-port", "0")) as server,
        envoy(tmp_path / "envoy", {"zone-a": [server.url]}, grpc=[f"http://{address_of(server)}"]) as edge,
    ):
        roots = grpc.ssl_channel_credentials(edge.authority.pem)
        with grpc.secure_channel(edge.url.partition("//")[2], roots, OPTIONS) as channel:
            bearer = ("authorization", f"Bearer {token()}")
            metadata = (bearer, ("x-request-id", "mine-2"))
            answer, call = method(channel, INFER).with_call(
                asked(text="hello"), metadata=metadata, timeout=60.0
            )
            assert answer.text == "hello"
            assert dict(call.trailing_metadata())["x-request-id"] == "mine-2"
            with pytest.raises(grpc.RpcError) as refused:
                method(channel, INFER)(asked(text="hello"), timeout=60.0)
            assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_who_has_no_good_token_is_refused_by_envoy_in_penstocks_shape_and_probes_and_documents_need_none(
    edge: Edge,
) -> None:
    for bad in ("", "nonsense", token(aud="others"), token(exp=1)):
        refused = edge.ask(b'{"input": "hello"}', bad)
        said = refused.json()
        assert (refused.status, said["error"] in ("UNAUTHORIZED", "FORBIDDEN")) in ((401, True), (403, True))
        assert said["message"]
        assert said["request_id"]
    assert all(not each["gateway"] for each in edge.log() if each["status"] in (401, 403))
    for path in ("/health", "/docs", "/openapi.json"):
        assert call(edge.url, "GET", path, tls=edge.tls).status == 200


def test_requests_stay_in_the_zone_of_their_envoy(edge: Edge) -> None:
    before = {url: said["rq_total"] for url, said in edge.gateways().items()}
    for _ in range(20):
        assert edge.ask(b'{"input": "hello"}', token()).status == 200
    served = {url: said["rq_total"] - before[url] for url, said in edge.gateways().items()}
    assert sorted(served.values()) == [0, 20]


def test_more_than_the_bound_of_one_envoy_is_refused_with_a_time_to_come_again(tmp_path: Path) -> None:
    few = {"max_tokens: 20000": "max_tokens: 1", "fill_interval: 0.1s": "fill_interval: 3600s"}
    with (
        serving(tmp_path) as server,
        envoy(tmp_path / "envoy", {"zone-a": [server.url]}, changes=few) as edge,
    ):
        first, second = (edge.ask(b'{"input": "hello"}', token()) for _ in range(2))
        assert first.status == 200
        assert (second.status, second.json()["error"]) == (429, "QUOTA_EXCEEDED")
        assert second.headers["retry-after"] == "1"


# Envoy's own default: five answers of 5xx in a row, from whatever cause. The only gateway there is may go, too.
ANY_5XX = {
    "enforcing_consecutive_5xx: 0": "enforcing_consecutive_5xx: 100",
    "max_ejection_percent: 50": "max_ejection_percent: 100",
}


@pytest.mark.parametrize(
    ("status", "changes", "ejected"), [(503, {}, False), (503, ANY_5XX, True), (429, ANY_5XX, False)]
)
def test_an_overloaded_gateway_is_taken_out_by_nobody_who_is_told_429_and_by_ours_in_no_case(
    status: int, changes: dict[str, str], ejected: bool, tmp_path: Path
) -> None:
    more = f"[limits]\nmax_queue = 1\n{PATIENT}"  # so that few requests are too many
    with (
        serving(tmp_path, held(tmp_path), more, status=status) as server,
        envoy(tmp_path / "envoy", {"zone-a": [server.url]}, changes=changes) as edge,
        ThreadPoolExecutor(8) as pool,
    ):
        bearer = token()
        waiting = [pool.submit(edge.ask, b'{"input": "hello"}', bearer) for _ in range(4)]
        eventually(lambda: server.health()["queue_depth"] >= 1)
        refused = [edge.ask(b'{"input": "hello"}', bearer) for _ in range(8)]
        assert {(each.status, each.json()["error"]) for each in refused} == {(status, "SERVICE_OVERLOADED")}
        assert all(each.headers["retry-after"] for each in refused)
        assert bool(edge.count("cluster.gateways.outlier_detection.ejections_enforced_total")) == ejected
        tried = {each["attempts"] for each in edge.log() if each["status"] == 429}
        assert tried == ({1} if status == 429 else set())  # overload is not for another gateway to hear of
        server.open()
        assert {each.result().status for each in waiting} <= {200, status}


# Envoy finds out for itself that a gateway drains, and here it must not: requests come before it has looked.
SELDOM = {
    "interval: 1s\n          no_traffic_interval: 1s": "interval: 600s\n          no_traffic_interval: 600s"
}


def test_what_a_gateway_that_stops_refuses_is_served_by_its_neighbour_and_what_it_took_by_itself(
    tmp_path: Path,
) -> None:
    model = held(tmp_path)
    with (
        serving(tmp_path, model) as first,
        serving(tmp_path, model) as second,
        envoy(tmp_path / "envoy", {"zone-a": [first.url, second.url]}, changes=SELDOM) as edge,
        ThreadPoolExecutor(1) as pool,
    ):
        taken = pool.submit(edge.ask, b'{"input": "taken"}', token(), x_request_id="taken")
        eventually(lambda: any(each.health()["waiting_clients"] for each in (first, second)))
        stopping, neighbour = (first, second) if first.health()["waiting_clients"] else (second, first)
        neighbour.open()
        stopping.process.send_signal(signal.SIGTERM)
        eventually(lambda: call(stopping.admin_url, "GET", "/readyz").status == 503)

        def asked_twice() -> bool:
            """Whether Envoy has chosen the gateway that stops first, at least once. Each request is answered."""
            assert edge.ask(b'{"input": "late"}', token(), x_request_id="late").status == 200
            return 2 in {each["attempts"] for each in edge.log() if each["id"] == "late"}

        eventually(asked_twice)
        stopping.open()
        assert taken.result().status == 200
        (tried,) = (each for each in edge.log() if each["id"] == "taken")
        assert (tried["attempts"], tried["gateway"]) == (1, stopping.url.partition("//")[2])
        assert stopping.process.wait(60.0) == 0


BROKEN = """
import time


def batch(inputs):
    if "slow" in inputs:
        time.sleep(0.5)
    raise ValueError("broken")
"""


def test_another_zone_is_asked_when_the_own_has_no_gateway_and_not_for_a_failure_or_a_deadline_that_passed(
    tmp_path: Path,
) -> None:
    (tmp_path / "broken.py").write_text(BROKEN)
    target = f"{tmp_path / 'broken.py'}:batch"
    with (
        serving(tmp_path, target) as near,
        serving(tmp_path, target) as far,
        envoy(tmp_path / "envoy", {"zone-a": [near.url], "zone-b": [far.url]}) as edge,
    ):
        assert edge.ask(b'{"input": "any"}', token()).status == 502
        assert edge.ask(b'{"input": "slow", "timeout_ms": 50}', token()).status == 504
        assert {(each["status"], each["attempts"]) for each in edge.log()} >= {(502, 1), (504, 1)}
        assert not {each["attempts"] for each in edge.log()} - {1, 0}
        # A zone without a gateway has its requests served by another.
        near.process.kill()
        eventually(lambda: edge.healthy() == {far.url})
        assert edge.ask(b'{"input": "any"}', token(), x_request_id="away").status == 502
        (away,) = (each for each in edge.log() if each["id"] == "away")
        assert away["gateway"] == far.url.partition("//")[2]
