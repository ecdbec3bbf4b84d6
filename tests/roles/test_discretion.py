"""What a client sends is told to that client and to nobody else: not to the log, not to the metrics."""

from pathlib import Path

from server import running

SECRET = "xyzzy-4711"
TELLTALE = 'def batchstring(inputs):\n    raise ValueError(f"cannot read {inputs[0]}")\n'


def test_the_words_of_an_exception_go_to_its_asker_alone(tmp_path: Path) -> None:
    (tmp_path / "telltale.py").write_text(TELLTALE)
    with running(f"{tmp_path / 'telltale.py'}:batchstring", config="[retries]\nattempts = 1\n") as server:
        answer = server.post("/v1/inference", {"input": SECRET, "client_id": f"{SECRET}-client"})
        assert answer.status == 502
        assert SECRET in answer.json()["message"]
        log = server.stderr()
        assert "raised ValueError" in log
        assert SECRET not in log
        assert SECRET not in server.admin("/metrics").body.decode()
        assert SECRET not in server.admin("/internal/workers").body.decode()


def test_a_good_answer_leaves_no_trace_of_what_was_asked() -> None:
    with running("sim:1ms", "--log-level", "debug") as server:
        assert server.post("/v1/inference", {"input": SECRET}).json()["output"] == SECRET
        assert SECRET not in server.stderr()
        assert SECRET not in server.admin("/metrics").body.decode()
