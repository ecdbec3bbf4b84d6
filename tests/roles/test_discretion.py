"""What a client sends is told to that client and to nobody else: not to the log, not to the metrics."""

import json
from pathlib import Path

from server import running

SECRET = "xyzzy-4711"
TELLTALE = 'def batchstring(inputs):\n    raise ValueError(f"cannot read {inputs[0]}")\n'


def test_the_words_of_an_exception_go_to_its_asker_alone(tmp_path: Path) -> None:
    (tmp_path / "telltale.py").write_text(TELLTALE)
    with running(f"{tmp_path / 'telltale.py'}:batchstring", config="[retries]\nattempts = 1\n") as server:
        answer = server.post("/v1/inference", {"input": SECRET, "client_id": f"{SECRET}-client"})
        assert answer.status == 502
        assert answer.json()["message"] == f"batchstring raised ValueError: cannot read {SECRET}"
        log = server.stderr()
        said = next(
            json.loads(line) for line in log.splitlines() if "the function raised an exception" in line
        )
        assert said["error"] == "ValueError: cannot read …"
        assert f'File "{tmp_path / "telltale.py"}", line 2, in batchstring' in said["traceback"]
        assert SECRET not in log
        assert SECRET not in server.admin("/metrics").body.decode()
        assert SECRET not in server.admin("/internal/workers").body.decode()


def test_a_good_answer_leaves_no_trace_of_what_was_asked() -> None:
    with running("sim:1ms", "--log-level", "debug") as server:
        assert server.post("/v1/inference", {"input": SECRET}).json()["output"] == SECRET
        assert SECRET not in server.stderr()
        assert SECRET not in server.admin("/metrics").body.decode()
