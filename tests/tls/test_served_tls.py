"""`penstock serve` with TLS: who gets in, what is refused, how it ends; with real handshakes."""

import json
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tls_kit import connected, encrypted, say

from certificates import Authority, Pair
from penstock.config import load
from penstock.edge.tls import ServerTls, TlsSettings
from penstock.errors import UserMistake
from redis_servers import VALKEY
from server import HUNG, PATIENT, PENSTOCK, Server, call, eventually, held
from wire import listen, post

INPUT = {"input": "hello"}
BODY = json.dumps(INPUT).encode()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def pair(authority: Authority, folder: Path) -> Pair:
    return authority.issue(folder, "server")


@pytest.fixture(scope="module")
def plain(authority: Authority, pair: Pair) -> Iterator[Server]:
    """A server that asks nobody for a certificate."""
    with encrypted(
        pair, tls="minimum = '1.3'\nadmin = true", config=PATIENT + "[limits]\nmax_body = '64KiB'"
    ) as server:
        server.tls = authority.trusting()
        yield server


@pytest.fixture(scope="module")
def closed(authority: Authority, pair: Pair, folder: Path) -> Iterator[Server]:
    """A server for those with a certificate of the authority alone."""
    with encrypted(pair, tls=f"client_ca = '{authority.save(folder)}'") as server:
        yield server


# ---- who gets in ---------------------------------------------------------------------------------------------


def test_a_client_that_trusts_the_authority_is_served(plain: Server) -> None:
    assert plain.url.startswith("https://")
    assert plain.post("/v1/inference", INPUT).json()["output"] == "hello"


def test_a_client_that_does_not_know_the_authority_does_not_talk_to_us(plain: Server) -> None:
    with pytest.raises(ssl.SSLCertVerificationError):
        call(plain.url, "GET", "/docs", tls=ssl.create_default_context())


def test_what_is_not_tls_is_not_answered(plain: Server) -> None:
    with socket.create_connection(plain.address, timeout=HUNG) as bare:
        bare.sendall(post(BODY))
        assert not listen(bare).statuses
    eventually(lambda: plain.health()["tls"]["failed_handshakes"] > 0)


def test_an_older_version_than_the_least_is_refused(plain: Server, authority: Authority) -> None:
    old = authority.trusting()
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(OSError), connected(plain, old):  # it is told nothing
        pass


def test_the_admin_plane_is_encrypted_where_that_is_asked_for(plain: Server) -> None:
    assert plain.admin_url.startswith("https://")
    assert plain.admin("/readyz").status == 200
    assert plain.metric("penstock_tls_certificate_loads_total") == 1


def test_only_a_client_with_a_certificate_of_the_authority_is_served(
    closed: Server, authority: Authority, folder: Path
) -> None:
    own = authority.issue(folder, "client")
    stranger = Authority("another").issue(folder, "stranger")
    assert statuses(closed, authority.trusting(own)) == [200]
    assert statuses(closed, authority.trusting()) == []
    assert statuses(closed, authority.trusting(stranger)) == []


def statuses(server: Server, context: ssl.SSLContext) -> list[int]:
    """None where the connection breaks: with TLS 1.3 a client learns only then that it was refused."""
    try:
        with connected(server, context) as secured:
            return say(secured, post(BODY, "connection: close")).statuses
    except OSError:
        return []


def test_curl_and_the_load_generator_talk_to_it(plain: Server, authority: Authority, folder: Path) -> None:
    ca = authority.save(folder)
    asked = ["curl", "-s", "--cacert", str(ca), f"{plain.url}/v1/inference", "--json", json.dumps(INPUT)]
    assert json.loads(subprocess.run(asked, check=True, capture_output=True).stdout)["output"] == "hello"
    load = [str(PENSTOCK), "bench", plain.url, "--rate", "50", "--duration", "500ms", "--warmup", "0s"]
    done = subprocess.run(
        [*load, "--json", "-"], env={"SSL_CERT_FILE": str(ca)}, check=True, capture_output=True
    )
    figures = json.loads(done.stdout)
    assert figures["ok"] == figures["sent"] > 0


# ---- what is refused, and how it ends --------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_told_so_and_the_connection_ends(
    plain: Server, authority: Authority
) -> None:
    with connected(plain, authority.trusting()) as secured:
        heard = say(secured, post(b"x" * 100_000))
        assert heard.statuses == [413]
        assert heard.closed


def test_silent_connections_are_bounded_in_number_and_in_time(authority: Authority, pair: Pair) -> None:
    limits = "[limits]\nheader_timeout = '300ms'\n[server]\nmax_connections = 2"
    with encrypted(pair, config=limits) as server:
        with ExitStack() as crowd:
            silent = [
                crowd.enter_context(socket.create_connection(server.address, timeout=HUNG)) for _ in range(3)
            ]
            for connection in silent:
                assert not listen(connection).data
        # Again, if need be: on a slow machine a handshake may take longer than silence may here.
        eventually(lambda: statuses(server, authority.trusting()) == [200])


def test_a_client_that_leaves_is_taken_out_of_the_queue(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    model = f"[models.held]\ntarget = '{held(folder)}'\nmax_batch = 1"
    with encrypted(pair, None, config=PATIENT + model) as server:

        def at_work() -> bool:
            said = server.health()
            return bool(said["queue_depth"] == 0 and said["waiting_clients"] == 1)

        with connected(server, authority.trusting()) as busy:
            busy.sendall(post(BODY))
            eventually(at_work)
            with connected(server, authority.trusting()) as leaver:
                leaver.sendall(post(BODY))
                eventually(lambda: server.health()["queue_depth"] == 1)
            eventually(lambda: server.health()["queue_depth"] == 0)
            assert server.metric("penstock_requests_total", model="held", outcome="CLIENT_LEFT") == 1


def test_what_was_accepted_is_answered_when_the_server_drains(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    config = PATIENT + "[server]\ndrain = '60s'"
    with (
        encrypted(pair, held(folder), config=config) as server,
        connected(server, authority.trusting()) as secured,
    ):
        secured.sendall(post(BODY))
        eventually(lambda: server.health()["waiting_clients"] == 1)
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.admin("/readyz").status == 503)
        server.open()
        assert listen(secured).statuses == [200]
        assert server.process.wait(HUNG) == 0


# ---- mistakes, and the other form ------------------------------------------------------------------------------


def refusal(certificate: Path, key: Path, client_ca: Path | None = None) -> str:
    with pytest.raises(UserMistake) as caught:
        ServerTls(TlsSettings(certificate, key, client_ca))
    assert "\n" not in caught.value.message
    return caught.value.message


def test_files_that_cannot_be_used_are_told_in_one_line(
    authority: Authority, pair: Pair, folder: Path
) -> None:
    other, none, locked = authority.issue(folder, "other"), folder / "none.pem", folder / "locked.key"
    subprocess.run(
        ["openssl", "ec", "-aes256", "-passout", "pass:x", "-in", pair.key, "-out", locked],
        check=True, capture_output=True,
    )  # fmt: skip
    assert refusal(none, pair.key) == f"tls.certificate: {none} cannot be read: No such file or directory"
    assert "do not belong together" in refusal(pair.certificate, other.key)
    assert "encrypted with a password" in refusal(pair.certificate, locked)
    assert "not a certificate and its key" in refusal(pair.certificate, pair.certificate)
    assert refusal(pair.certificate, pair.key, none).startswith("tls.client_ca: ")
    assert "cannot be used" in refusal(pair.certificate, pair.key, pair.key)


@pytest.mark.parametrize("setting", ["tls.key", "tls.client_ca"])
def test_settings_of_tls_without_a_certificate_are_a_mistake(setting: str) -> None:
    with pytest.raises(UserMistake, match="is of no use without"):
        load(None, {}, {setting: "file.pem"})


def test_a_gateway_over_redis_serves_with_tls_too(
    authority: Authority, pair: Pair, redis_urls: dict[str, str]
) -> None:
    command = [str(PENSTOCK), "gateway", "--redis", redis_urls[VALKEY], "--port", "0", "--admin-port", "0"]
    command += ["--tls-cert", str(pair.certificate), "--tls-key", str(pair.key)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            url = next(line for line in process.stdout if "serving" in line).split()[1]
            docs = call(url.removesuffix("/v1/inference"), "GET", "/docs", tls=authority.trusting())
            assert docs.status == 200
            process.terminate()
            assert process.wait(HUNG) == 0
        finally:
            process.kill()
