"""Penstock in front of endpoints of a known kind: another Penstock, by its doors for their clients."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from server import PATIENT, Server, running

FUNCTIONS = """
from penstock import Output
def shout(texts):
    return [text.upper() for text in texts]
def embed(texts, dimensions=2):
    return [Output([float(len(text))] * dimensions, tokens_used=len(text.split())) for text in texts]
def complete(texts, suffix=""):
    return [text.upper() + suffix for text in texts]
"""


@pytest.fixture
def functions(tmp_path: Path) -> Path:
    file = tmp_path / "functions.py"
    file.write_text(FUNCTIONS)
    return file


def address(server: Server) -> str:
    return server.url.removeprefix("http://")


def test_embeddings_by_way_of_openai_s_door(functions: Path) -> None:
    with running(f"{functions}:embed") as upstream, running(f"openai://{address(upstream)}/v1") as server:
        answer = server.post("/v1/inference", {"input": "two words"}).json()
        assert (answer["output"], answer["metadata"]["tokens_used"]) == ([9.0, 9.0], 2)
        longer = server.post("/v1/inference", {"input": "abc", "parameters": {"dimensions": 3}}).json()
        assert longer["output"] == [3.0, 3.0, 3.0]
        both = server.post("/v1/embeddings", {"input": ["a", "bb"]})
        assert [each["embedding"] for each in both.json()["data"]] == [[1.0, 1.0], [2.0, 2.0]]


def test_completions_by_way_of_openai_s_door(functions: Path) -> None:
    with (
        running(f"{functions}:complete") as upstream,
        running(f"openai://{address(upstream)}/v1/completions") as server,
    ):
        answer = server.post("/v1/inference", {"input": "once", "parameters": {"suffix": "!"}})
        assert answer.json()["output"] == "ONCE!"


def test_embeddings_by_way_of_tei_s_door(functions: Path) -> None:
    with running(f"{functions}:embed") as upstream, running(f"tei://{address(upstream)}") as server:
        assert server.post("/v1/inference", {"input": "abc"}).json()["output"] == [3.0, 3.0]
        assert server.post("/embed", {"inputs": ["a", "bb"]}).json() == [[1.0, 1.0], [2.0, 2.0]]


def test_texts_by_way_of_the_doors_of_the_open_inference_protocol(functions: Path) -> None:
    with running(f"{functions}:shout", "--grpc-port", "0") as upstream:
        grpc_port = next(line for line in upstream.banner if "grpc" in line)
        host = urlsplit(upstream.url).hostname
        found = re.search(r"grpc://[^:]+:(\d+)", grpc_port)
        assert found is not None, upstream.banner
        for target in (f"oip+http://{address(upstream)}/shout", f"grpc://{host}:{found[1]}/shout"):
            with running(target) as server:
                assert server.post("/v1/inference", {"input": "hé"}).json()["output"] == "HÉ"


def test_an_upstream_with_a_quota_slows_down_and_fails_nobody(functions: Path) -> None:
    # Ten requests at once and twenty a second from everybody, so that most batches are refused at first.
    quota = (
        "[tiers]\ndefault = 'free'\n[tiers.levels.free]\nrank = 0\nrequests_per_minute = 1200\nburst = 10\n"
    )
    with (
        running(f"{functions}:embed", config=quota) as upstream,
        running(f"openai://{address(upstream)}/v1", "--max-batch", "5", config=PATIENT) as server,
        ThreadPoolExecutor(40) as threads,
    ):
        answers = list(threads.map(lambda n: server.post("/v1/inference", {"input": "x" * n}), range(1, 41)))
        assert [answer.status for answer in answers] == [200] * 40, {answer.body for answer in answers}
        assert [answer.json()["output"][0] for answer in answers] == [float(n) for n in range(1, 41)]
        assert server.admin("/internal/dlq").json() == []


def test_who_cannot_wait_for_the_upstream_is_told_when_to_come_again(functions: Path) -> None:
    # One request a minute: the second has to wait for longer than its four seconds.
    quota = "[tiers]\ndefault = 'free'\n[tiers.levels.free]\nrank = 0\nrequests_per_minute = 1\nburst = 1\n"
    with (
        running(f"{functions}:embed", config=quota) as upstream,
        running(f"openai://{address(upstream)}/v1") as server,
    ):
        assert server.post("/v1/inference", {"input": "x"}).status == 200
        refused = server.post("/v1/inference", {"input": "y"})
        assert (refused.status, refused.json()["error"]) == (503, "SERVICE_OVERLOADED")
        assert int(refused.headers["Retry-After"]) > 4
        assert server.admin("/internal/dlq").json() == []


def test_penstock_check_tries_the_endpoint(functions: Path, tmp_path: Path) -> None:
    from command_line import penstock

    with running(f"{functions}:embed") as upstream:
        (tmp_path / "good.toml").write_text(f"[models.m]\ntarget = 'openai://{address(upstream)}/v1'\n")
        good = penstock("check", "good.toml", directory=tmp_path)
        assert good.returncode == 0, good.stdout + good.stderr
    (tmp_path / "odd.toml").write_text("[models.m]\ntarget = 'openai://gpu/v1?key=1'\n")
    odd = penstock("check", "odd.toml", directory=tmp_path)
    assert odd.returncode == 2
    assert "write it as openai://host:port/v1" in odd.stdout + odd.stderr
