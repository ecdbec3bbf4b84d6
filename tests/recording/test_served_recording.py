"""`[trace] record`: a real server records what arrives, and the other commands replay it."""

import json
import re
from pathlib import Path

import typer
from typer.testing import CliRunner

from penstock.cli.sim import sim
from penstock.load.recorded import read
from penstock.load.traffic import Traffic, make_schedule
from server import running

SECRET = "xyzzy-4711"
CONFIG = """
[trace]
record = "arrivals.csv"
[tenants.acme]
tier = "enterprise"
[models.it]
target = "sim:5ms"
deterministic = true
"""


def test_a_server_records_what_arrives_and_the_simulator_replays_it(tmp_path: Path) -> None:
    path = tmp_path / "arrivals.csv"
    with running("sim:5ms", "--record", str(path)) as server:
        for number in range(6):
            asked = {"input": f"{SECRET}-{number}", "client_id": "acme" if number % 2 else SECRET}
            assert server.post("/v1/inference", asked).status == 200
        assert server.post("/v1/inference", {"inputs": SECRET}).status == 422
        assert server.stop() == 0
    assert SECRET not in path.read_text()
    found = read(path)
    assert (len(found.times), found.tenants) == (6, 2)
    assert list(found.sizes or ()) == [len(SECRET) + 4] * 6
    assert found.times[0] < found.times[-1]
    schedule = make_schedule(Traffic(100.0, 10.0, 0.0, trace=path))
    assert len(schedule.times) == len(schedule.sizes or ()) == 6
    app = typer.Typer()
    app.command()(sim)
    replayed = ["--service", "5ms", "--trace", str(path), "--rate", "50", "--warmup", "0s", "--json", "-"]
    assert json.loads(CliRunner().invoke(app, replayed).stdout)["sent"] == 6


def test_it_counts_what_it_records() -> None:
    with running(config=CONFIG) as server:
        for _ in range(3):
            assert server.post("/v1/inference", {"input": "the same", "client_id": "acme"}).status == 200
        page = server.admin("/metrics").body.decode()
        assert re.search(r'penstock_recorded_requests_total\{state="(recorded|dropped)"\} [01]\.0', page)
