"""The client with a real server: keys, TLS, bytes, tasks, and a server that goes and comes back."""

import subprocess
from pathlib import Path

import pytest

from certificates import Authority
from penstock.client import Busy, Client, NoContact, Refused, Retries
from server import HUNG, PENSTOCK, running

FUNCTIONS = """
import hashlib
def echo(inputs):
    return inputs
def sizes(inputs):
    return [len(each) if isinstance(each, bytes) else each for each in inputs]
def turned(inputs):
    return [each[::-1] for each in inputs]
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    return file


def test_a_thousand_inputs_share_batches_and_come_back_in_order(functions: Path) -> None:
    texts = [f"text {number}" for number in range(1000)]
    with running(f"{functions}:echo", "--max-batch", "32") as server, Client(server.url) as client:
        mapped = client.map(texts, concurrency=64, output=str)
        answers = list(mapped)
        assert mapped.failures == []
        assert [each.output for each in answers] == texts
        assert max(each.answer.metadata.batch_size for each in answers) > 1


def test_an_overloaded_server_slows_a_map_down_and_fails_nothing() -> None:
    # A queue of eight refuses most of what comes.
    config = "[limits]\nmax_queue = 8\n"
    with running("sim:5ms", "--max-batch", "4", config=config) as server, Client(server.url) as client:
        mapped = client.map(range(200), concurrency=50)
        assert sorted(done.index for done in mapped) == list(range(200))
        assert mapped.failures == []
        assert mapped.retried > 0


def test_bytes_go_both_ways(functions: Path) -> None:
    with running(f"{functions}:turned") as server, Client(server.url) as client:
        assert client.infer(b"\x00\x01\xff").output == b"\xff\x01\x00"
        assert client.infer("abc").output == "cba"


def test_keys_and_certificates_are_shown_and_checked(functions: Path, tmp_path: Path) -> None:
    authority, stranger = Authority(), Authority("Stranger")
    pair, own = authority.issue(tmp_path, "server"), authority.issue(tmp_path, "client")
    made = subprocess.run(
        [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid", "--keys", "keys.toml"],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=HUNG,
    )  # fmt: skip
    key = next(word for word in made.stdout.split() if word.startswith("pk_"))
    config = (
        f"[auth]\nmode = 'keys'\nkeys_file = '{tmp_path / 'keys.toml'}'\n"
        f"[tls]\ncertificate = '{pair.certificate}'\nkey = '{pair.key}'\nclient_ca = '{authority.save(tmp_path)}'\n"
    )
    ca_file, shown = tmp_path / "ca.pem", (str(own.certificate), str(own.key))
    with running(f"{functions}:echo", config=config) as server:
        with Client(server.url, key=key, ca_file=ca_file, certificate=shown) as client:
            assert client.infer("x").output == "x"
        with (
            Client(server.url, key="pk_wrong", ca_file=ca_file, certificate=shown) as client,
            pytest.raises(Refused, match="UNAUTHORIZED"),
        ):
            client.infer("x")
        with (
            Client(
                server.url, key=key, ca_file=stranger.save(tmp_path, "other"), certificate=shown
            ) as client,
            pytest.raises(NoContact, match="cannot be trusted"),
        ):
            client.infer("x")


def test_a_server_that_makes_tasks_of_everything_answers_all_the_same(functions: Path) -> None:
    with (
        running(f"{functions}:echo", config="[api]\nrespond = 'async'\n") as server,
        Client(server.url) as client,
    ):
        assert client.infer("x", output=str).output == "x"
        assert client.map(["a", "b", "c"]).outputs() == ["a", "b", "c"]


def test_a_retry_with_the_same_key_is_not_executed_again(tmp_path: Path) -> None:
    file = tmp_path / "counting.py"
    file.write_text(
        "import itertools\ncounted = itertools.count(1)\n"
        "def count(inputs):\n    return [next(counted) for _ in inputs]\n"
    )
    with running(f"{file}:count") as server, Client(server.url) as client:
        assert [client.infer("x", idempotency_key="order-17").output for _ in range(3)] == [1, 1, 1]
        assert client.infer("x").output == 2


def test_a_refusal_says_when_to_come_again() -> None:
    # One request a minute, so that the second is refused.
    config = "[tiers]\ndefault = 'free'\n[tiers.levels.free]\nrank = 0\nrequests_per_minute = 1\nburst = 1\n"
    never = Retries(attempts=1)
    with (
        running("sim:1ms", config=config) as server,
        Client(server.url, retries=never, client_id="acme") as client,
    ):
        client.infer("x")
        with pytest.raises(Busy, match="QUOTA_EXCEEDED") as busy:
            client.infer("x")
        assert busy.value.retry_after is not None
        assert busy.value.retry_after > 1.0
