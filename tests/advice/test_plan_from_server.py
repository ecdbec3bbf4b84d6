"""A plan from what a running server has measured."""

import json

from test_plan_command import app, mistake
from typer.testing import CliRunner

from server import running


def test_it_plans_with_the_curve_that_the_server_has_learned_and_the_rate_that_it_has() -> None:
    with running("sim:a=20ms,b=2ms", "--max-batch", "8") as server:
        where = server.admin_url
        assert "has not run a batch yet" in mistake("--from", where, "--rate", "100", "--objective", "1s")
        for _ in range(3):
            server.post("/v1/inference", {"input": "a"})
        found = json.loads(
            CliRunner().invoke(app, ["--from", where, "--objective", "200ms", "--json"]).stdout
        )
        assert 20 < found["assumed"]["batch_ms"]["1"] < 200
        assert found["assumed"]["max_batch"] == 1
        assert "it has run no batch above 1 yet" in found["assumed"]["curve"]
        assert 0 < found["assumed"]["rate"] < 100
        again = ["--from", where, "--rate", "30", "--objective", "2s", "--max-batch", "4", "--json"]
        assert json.loads(CliRunner().invoke(app, again).stdout)["assumed"]["max_batch"] == 4
