"""An environment of its own for each rival, made on first use from `requirements/` and kept in `.peers/`. Before
the first round, one is prepared for each rival that is measured."""

import subprocess
import sys
from pathlib import Path

from benchmarks.peers.roster import Peer

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ENVIRONMENTS = ROOT / ".peers"
REQUIREMENTS = HERE / "requirements"


class CannotSetUp(Exception):
    """This rival cannot be had on this machine; the message says why."""


def prepare(peer: Peer) -> Path:
    """The folder of the peer's programs, made if it is missing or if its pins have changed."""
    if peer.requirements is None:
        return Path(sys.executable).parent
    pins = REQUIREMENTS / f"{peer.requirements}.txt"
    folder = ENVIRONMENTS / peer.requirements
    made_from = folder / "made-from.txt"
    if not made_from.is_file() or made_from.read_text() != pins.read_text():
        print(f"setting up {folder.relative_to(ROOT)} …", flush=True)
        try:
            _run(peer.interpreter, "-m", "venv", "--clear", f"{folder}")
        except CannotSetUp as reason:
            hint = "on Debian, apt-get install python3-venv"
            raise CannotSetUp(f"{peer.interpreter} cannot make an environment ({hint}): {reason}") from reason
        _run(f"{folder}/bin/pip", "install", "--quiet", "--disable-pip-version-check", "-r", f"{pins}")
        made_from.write_text(pins.read_text())
    return folder / "bin"


def _run(*command: str) -> None:
    try:
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise CannotSetUp(f"{command[0]}: {error.strerror}") from error
    if finished.returncode:
        words = (finished.stderr.strip() or finished.stdout.strip()).splitlines()
        raise CannotSetUp(words[-1] if words else f"{command[0]} ended with {finished.returncode}")
