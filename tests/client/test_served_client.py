"""The client with a real server: keys, TLS, bytes, tasks, quotas, and a server that cannot keep up."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority
from penstock.client import Busy, Client, NoContact, Refused, Retries
from server import HUNG, PENSTOCK, Server, running

FUNCTIONS = """
import itertools
counted = itertools.count(1)
def echo(inputs):
    return inputs
def turned(inputs):
    return [each[::-1] for each in inputs]
def count(inputs):
    return [next(counted) for _ in inputs]
"""
CONFIG = """
[models.echo]
target = "{file}:echo"
max_batch = 32
default = true
[models.turned]
target = "{file}:turned"
[models.count]
target = "{file}:count"
[models.later]
target = "sim:1ms"
respond = "async"
# One request a minute, so that the second is refused.
[tiers]
default = "plenty"
[tiers.levels.plenty]
rank = 0
[tiers.levels.narrow]
rank = 1
requests_per_minute = 1
burst = 1
[tenants.acme]
tier = "narrow"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    file = tmp_path_factory.mktemp("functions") / "functions.py"
    file.write_text(FUNCTIONS)
    with running(config=CONFIG.format(file=file)) as serving:
        yield serving


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url) as asking:
        yield asking


def test_a_thousand_inputs_share_batches_and_come_back_in_order(client: Client) -> None:
    texts = [f"text {number}" for number in range(1000)]
    mapped = client.map(texts, concurrency=64, output=str)
    answers = list(mapped)
    assert mapped.failures == []
    assert [each.output for each in answers] == texts
    assert max(each.answer.metadata.batch_size for each in answers) > 1


def test_bytes_go_both_ways(client: Client) -> None:
    assert client.infer(b"\x00\x01\xff", model="turned").output == b"\xff\x01\x00"
    assert client.infer("abc", model="turned").output == "cba"


def test_a_model_that_makes_tasks_answers_all_the_same(client: Client) -> None:
    assert client.infer("x", model="later", output=str).output == "x"
    assert client.map(["a", "b", "c"], model="later").outputs() == ["a", "b", "c"]


def test_a_retry_with_the_same_key_is_not_executed_again(client: Client) -> None:
    outputs = [client.infer("x", model="count", idempotency_key="order-17").output for _ in range(3)]
    assert outputs == [outputs[0]] * 3
    assert client.infer("x", model="count").output == outputs[0] + 1


def test_a_refusal_says_when_to_come_again(server: Server) -> None:
    with Client(server.url, retries=Retries(attempts=1), client_id="acme") as narrow:
        narrow.infer("x")
        with pytest.raises(Busy, match="QUOTA_EXCEEDED") as busy:
            narrow.infer("x")
        assert busy.value.retry_after is not None
        assert busy.value.retry_after > 1.0


def test_an_overloaded_server_slows_a_map_down_and_fails_nothing() -> None:
    # A queue of eight refuses most of what comes.
    config = "[limits]\nmax_queue = 8\n"
    with running("sim:5ms", "--max-batch", "4", config=config) as server, Client(server.url) as client:
        mapped = client.map(range(200), concurrency=50)
        assert sorted(done.index for done in mapped) == list(range(200))
        assert mapped.failures == []
        assert mapped.retried > 0


def test_keys_and_certificates_are_shown_and_checked(tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority("Stranger")
    pair, own = authority.issue(tmp_path, "server"), authority.issue(tmp_path, "client")
    command = [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid", "--keys", "keys.toml"]
    made = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=HUNG
    ).stdout
    key = next(word for word in made.split() if word.startswith("pk_"))
    config = (
        f"[auth]\nmode = 'keys'\nkeys_file = '{tmp_path / 'keys.toml'}'\n"
        f"[tls]\ncertificate = '{pair.certificate}'\nkey = '{pair.key}'\nclient_ca = '{authority.save(tmp_path)}'\n"
    )
    ca_file, shown = tmp_path / "ca.pem", (str(own.certificate), str(own.key))
    with running("sim:1ms", config=config) as server:
        with Client(server.url, key=key, ca_file=ca_file, certificate=shown) as client:
            assert client.infer("x").output == "x"
        with (
            Client(server.url, key="pk_wrong", ca_file=ca_file, certificate=shown) as client,
            pytest.raises(Refused, match="UNAUTHORIZED"),
        ):
            client.infer("x")
        other = stranger.save(tmp_path, "other")
        with (
            Client(server.url, key=key, ca_file=other, certificate=shown) as client,
            pytest.raises(NoContact, match="cannot be trusted"),
        ):
            client.infer("x")
