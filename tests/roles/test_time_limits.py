"""One time-out on the command line, and what a server says of its time limits."""

import json
import subprocess

import pytest

from server import HUNG, PENSTOCK, running


def test_a_server_tells_of_settings_that_break_its_promises_and_names_what_ended_a_request() -> None:
    with running("sim:200ms", "--timeout", "50s", "--processing-timeout", "60s") as server:
        (doubt,) = [json.loads(line) for line in server.log_lines() if "not shorter" in line]
        assert doubt["level"] == "warning"
        assert doubt["message"].startswith(
            "models.sim.processing_timeout (1min) is not shorter than timeouts.request (50s, follows"
        )
        assert server.post("/v1/inference", {"input": "a"}).status == 200
        hasty = server.post("/v1/inference", {"input": "a", "timeout_ms": 10})
        assert (hasty.status, hasty.json()["error"]) == (504, "DEADLINE_EXCEEDED")
        assert "timeout_ms" in hasty.json()["message"]


@pytest.mark.parametrize(
    "command",
    [
        ["serve", "sim:1ms", "--max-wait", "50"],
        ["worker", "sim:1ms", "--max-wait", "50"],
        ["sim", "--service", "1ms", "--max-wait", "50"],
    ],
)
def test_a_number_without_a_unit_is_answered_with_the_spelling_that_is_meant(command: list[str]) -> None:
    said = subprocess.run([PENSTOCK, *command], capture_output=True, text=True, timeout=HUNG, check=False)
    assert (said.returncode, said.stderr) == (
        2,
        "penstock: --max-wait: 50 has no unit: write 50ms or 50s\n",
    )
