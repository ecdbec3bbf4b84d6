"""This release and the one before it, each as a folder of source, so that processes of both run side by side.

The older source comes out of the history of this clone. Both run in the virtual environment of the tests, which has
all that the older release imports.
"""

import io
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BEFORE = "2e8b73b7ef73db896e65709bbf1182cb2d544020"  # the commit that was released last


@dataclass(frozen=True, slots=True)
class Release:
    name: str
    source: Path

    def environment(self, others: Mapping[str, str]) -> dict[str, str]:
        """The variables with which a process runs this release."""
        return {**others, "PYTHONPATH": str(self.source)}

    def imported(self) -> Path:
        """Where a process with these variables has its code from."""
        program = [sys.executable, "-P", "-c", "import penstock; print(penstock.__file__)"]
        said = subprocess.run(program, env=self.environment({}), capture_output=True, text=True, check=True)
        return Path(said.stdout.strip())


def this_release() -> Release:
    return Release("this", ROOT / "src")


def release_before(folder: Path) -> Release:
    """The release before this one, in that folder. A clone without its commit skips the test."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", BEFORE, "src/penstock"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        why = archive.stderr.decode(errors="replace").strip()
        pytest.skip(f"this clone does not have commit {BEFORE[:8]}, the release before: {why}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    release = Release("before", folder / "src")
    assert release.imported().is_relative_to(release.source), release.imported()
    return release
