"""Clients that are too heavy for our own environment, each in one of its own: made on first use from
`requirements/`, kept in `.clients/`. `make test-clients` runs the tests in this folder; `make test` does not.

said = run("kserve", "http://127.0.0.1:8000")     # what programs/kserve.py prints, as JSON
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.peers.environment import REQUIREMENTS
from benchmarks.peers.roster import TRITON

HERE = Path(__file__).parent
ENVIRONMENTS = HERE.parents[1] / ".clients"
LONGEST = 600.0  # seconds: the bound of a failure
# By name, the interpreter of those that another than ours must make, with the pins of the benchmarks.
OF_PEERS = {TRITON.requirements: TRITON.interpreter}


def python_of(name: str) -> Path:
    """The interpreter of an environment, which is made if it is missing or if its pins have changed."""
    pins = (REQUIREMENTS if name in OF_PEERS else HERE / "requirements") / f"{name}.txt"
    interpreter = OF_PEERS.get(name, sys.executable)
    folder = ENVIRONMENTS / name
    made_from = folder / "made-from.txt"
    if not made_from.is_file() or made_from.read_text() != pins.read_text():
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        # The pins are all there is: what a package wants besides is not needed here.
        install = ["install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", str(pins)]
        subprocess.run([str(folder / "bin" / "pip"), *install], check=True, timeout=LONGEST)
        made_from.write_text(pins.read_text())
    return folder / "bin" / "python"


def run(name: str, *arguments: str) -> Any:
    """Runs the program of this name in the environment of this name."""
    program = HERE / "programs" / f"{name}_client.py"
    command = [str(python_of(name)), str(program), *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LONGEST)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout.splitlines()[-1])
