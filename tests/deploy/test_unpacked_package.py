"""The tool that has the commands of a Debian package without installing it."""

import subprocess
from pathlib import Path

TOOL = Path(__file__).parents[2] / "tools/unpacked-package"


def have(folder: Path, command: str, path: str | None = None) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["/bin/sh", TOOL, folder, "prometheus", command],
        env=None if path is None else {"PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_is_on_the_path_or_in_the_folder_is_not_fetched(tmp_path: Path) -> None:
    done = have(tmp_path, "sh")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(tmp_path.iterdir()) == []
    unpacked = tmp_path / "usr/bin/promtool"
    unpacked.parent.mkdir(parents=True)
    unpacked.touch(0o755)
    done = have(tmp_path, "promtool", path="/nowhere")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_where_there_are_no_packages_it_says_what_is_missing(tmp_path: Path) -> None:
    done = have(tmp_path, "promtool", path="/nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "please install: promtool (they must be on your PATH)\n"
