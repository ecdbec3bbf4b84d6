"""10,000 generated requests and 500 malformed ones: no 5xx, no hang, no traceback, nothing smuggled."""

import os
import random
import re
import subprocess
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from raw_cases import raw_cases
from server import PENSTOCK, Server, eventually, running
from wire import Heard, talk

TEXT = """
[models.text]
target = "sim:1ms"
input = "text"
workers = 4
"""
# Where any JSON is taken, a schema cannot say that no string in it may hold a control character: here they may.
SEVERAL = (
    TEXT
    + """
[models.any]
target = "sim:1ms"
input = "json"
output = "json"
"""
)
ALLOWED = "\ncontrol_characters = 'allow'"
# What the doors for other servers' clients are for: a list of numbers for each input, which is an embedding, and a
# score too, since it has but one.
FOR_OTHERS = """
[files]
directory = "files"
[models.text]
target = "{folder}/numbers.py:numbers"
input = "text"
default = true
[models.any]
target = "{folder}/numbers.py:numbers"
input = "json"
"""
# Where requests that name no model mean one that takes pairs.
RANKING = """
[models.any]
target = "{folder}/numbers.py:numbers"
input = "json"
"""
NUMBERS = "def numbers(inputs, **options):\n    return [[0.5] for each in inputs]\n"
CLOSED = "\n[doors]\nopenai = false\nopen_inference = false\nrerank = false\ntei = false\n"
HERE = Path(__file__).parent
# For what is malformed, which is waited for. The fuzzer is a good client: its connections must outlive its pauses.
IMPATIENT = "[limits]\nbody_timeout = '1s'\nheader_timeout = '1s'\nidle_timeout = '1s'"
PATIENT = (
    "[limits]\nbody_timeout = '60s'\nheader_timeout = '60s'\nidle_timeout = '300s'\nmax_long_poll = '100ms'"
)
HANGS = 60  # seconds without an answer
SWITCHES = "/v1/stream"  # no document can say what makes a connection speak another protocol
NOBODY: Mapping[str, str] = {}
FUZZER = str(Path(sys.executable).with_name("schemathesis"))
# A cancelled task can still be looked at, so DELETE need not make it vanish; and the backend is never
# at fault here, so our own check of 5xx is the stricter one.
NOT_ASKED = "not_a_server_error,use_after_free,ensure_resource_availability"
NOT_SPOKEN = {501, 505}  # another transfer coding than chunked; an HTTP/2.0 request line


def make_key(folder: Path) -> str:
    command = [str(PENSTOCK), "keys", "create", "--tenant", "acme", "--tier", "paid"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def at_rest(server: Server) -> bool:
    health = server.health()
    return (health["status"], health["queue_depth"], health["waiting_clients"]) == ("healthy", 0, 0)


def check_nothing_is_left(server: Server, model: str, headers: Mapping[str, str] = NOBODY) -> None:
    assert "Traceback" not in server.stderr(), server.stderr()
    eventually(lambda: at_rest(server), 60.0)  # tasks have nobody who waits for them
    answer = server.post("/v1/inference", {"input": "still here", "model": model}, headers)
    assert answer.json()["output"] in ("still here", [0.5])


class Case(NamedTuple):
    """One run of the fuzzer. `included`: which paths it asks, as a pattern; `excluded`: which of these not."""

    config: str
    share: float = 1.0  # of the requests
    included: str = ""
    excluded: str = ""
    secured: bool = False
    operations: int = 1  # of a door, which share its requests


CASES = {
    "one model": Case(TEXT + PATIENT + CLOSED),
    "several models": Case(SEVERAL + PATIENT + ALLOWED + CLOSED, 0.2),
    "with an API key": Case(TEXT + PATIENT + CLOSED, 0.2, secured=True),
}
# Which values fill the shape of a tensor, no schema can say: `test_f1_tensors.py` makes such requests.
DOORS_TOGETHER = {
    "doors for other clients": Case(
        FOR_OTHERS + PATIENT, 0.4, excluded="^/v1/inference$|^/v2/.*/infer$",
    ),
    "doors that rank": Case(RANKING + PATIENT, 0.2, "rerank$|^/predict$"),
}  # fmt: skip
# In the long form each of them has its 10,000 requests.
EACH_DOOR = {
    **{
        path: Case(FOR_OTHERS + PATIENT, included=f"^{path}")
        for path in ("/v1/embeddings", "/v1/completions", "/embed")
    },
    **{
        path: Case(FOR_OTHERS + PATIENT, included=f"^{path}", operations=4)
        for path in ("/v1/files", "/v1/batches")
    },
    # It tells of models, and there is not much that it can be asked.
    "/v2": Case(FOR_OTHERS + PATIENT, 0.1, "^/v2", "infer$|rerank$", operations=4),
    **{
        path: Case(RANKING + PATIENT, included=f"^{path}$")
        for path in ("/v1/rerank", "/v2/rerank", "/rerank", "/predict")
    },
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "case" in metafunc.fixturenames:
        doors = EACH_DOOR if metafunc.config.getoption("--chaos-long") else DOORS_TOGETHER
        cases = {**CASES, **doors}
        metafunc.parametrize("case", cases.values(), ids=cases)


@pytest.mark.timeout(1800)
def test_the_server_keeps_its_contract_whatever_is_generated(
    case: Case, tmp_path: Path, chaos_long: bool, chaos_seed: int
) -> None:
    examples, least = (4000, 10_000) if chaos_long else (40, 250)
    if case in EACH_DOOR.values():
        examples = least // case.operations
    examples, least = int(examples * case.share), int(least * case.share)
    config, known = case.config, list[str]()
    known += ["--include-path-regex", case.included] if case.included else []
    known += ["--exclude-path-regex", case.excluded] if case.excluded else []
    if case.secured:  # the fuzzer tries without, and with others, by itself
        known += ["--header", f"X-API-Key: {make_key(tmp_path)}"]
        config += f'\n[auth]\nmode = "keys"\nkeys_file = "{tmp_path}/penstock-keys.json"'
    (tmp_path / "numbers.py").write_text(NUMBERS)
    with running(config=config.replace("{folder}", str(tmp_path))) as server:
        command = [
            FUZZER,
            "run",
            f"{server.url}/openapi.json",
            "--checks",
            "all",
            "--exclude-checks",
            NOT_ASKED,
            "--exclude-path",
            SWITCHES,
        ]
        command += [
            "--max-examples",
            str(examples),
            "--seed",
            str(chaos_seed),
            "--request-timeout",
            str(HANGS),
        ]
        fuzzed = subprocess.run(
            [*command, *known, "--generation-database", "none", "--no-color"],
            env={**os.environ, "SCHEMATHESIS_HOOKS": "contract_checks", "PYTHONPATH": str(HERE)},
            cwd=server.directory,
            capture_output=True,
            text=True,
            check=False,
        )
        assert fuzzed.returncode == 0, fuzzed.stdout + fuzzed.stderr
        generated = re.search(r"([\d,]+) generated", fuzzed.stdout)
        assert generated is not None, fuzzed.stdout
        assert int(generated[1].replace(",", "")) >= least
        assert server.metric("penstock_refused_requests_total", model="", code="INTERNAL") == 0
        model = "any" if config.startswith(RANKING) else "text"
        check_nothing_is_left(server, model, dict([known[1].split(": ")]) if case.secured else {})


@pytest.mark.timeout(600)
def test_malformed_requests_are_refused_and_nothing_is_smuggled(chaos_long: bool, chaos_seed: int) -> None:
    cases = raw_cases(500 if chaos_long else 120, random.Random(chaos_seed))
    with running("sim:poison=SMUGGLED", config=IMPATIENT) as server:

        def send(case: bytes) -> Heard:
            return talk(server.address, case, seconds=HANGS)

        with ThreadPoolExecutor(24) as pool:
            heard = list(pool.map(send, cases))
        hung = [case[:300] for case, answer in zip(cases, heard, strict=True) if not answer.closed]
        assert hung == [], "the server must end every such connection by itself"
        faults = [
            case[:300]
            for case, answer in zip(cases, heard, strict=True)
            if max({*answer.statuses} - NOT_SPOKEN, default=0) >= 500
        ]
        assert faults == []
        assert not any(b"SMUGGLED" in answer.data for answer in heard)
        assert server.metric("penstock_requests_total", model="sim", outcome="BACKEND_FAILED") == 0
        check_nothing_is_left(server, "sim")
