"""Takes Penstock, its rivals and a Valkey to a machine without a network, as wheels. Needs only Python there.

    python -m benchmarks.gpu.wheels collect              # here: into .wheels
    python3 -m benchmarks.gpu.wheels install .site       # there, by the Python that has torch
    .site/bin/python -m benchmarks.gpu

The environment in .site sees the torch of the Python that made it, and the Penstock of this checkout.
"""

import argparse
import configparser
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent.parent
WHEELS = ROOT / ".wheels"
RIVALS = ROOT / "benchmarks" / "peers" / "requirements"
REQUIREMENTS = (ROOT / "requirements.lock", RIVALS / "mosec.txt", RIVALS / "litserve.txt")
PLATFORMS = (
    "manylinux1",
    "manylinux2010",
    "manylinux2014",
    *(f"manylinux_2_{minor}" for minor in range(5, 40)),
)
OWN_SCRIPT = "penstock = penstock.cli:main"


def collect(python: str, folder: Path) -> None:
    """Fetches the wheels of all requirements for Linux on x86-64; pip refuses what has none."""
    tags = [
        "--implementation",
        "cp",
        "--abi",
        f"cp{python.replace('.', '')}",
        "--abi",
        "abi3",
        "--abi",
        "none",
    ]
    for platform in PLATFORMS:
        tags += ["--platform", f"{platform}_x86_64"]
    for file in REQUIREMENTS:  # one at a time: the lock has hashes and the others have none
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
        command += ["--python-version", python, *tags, "--dest", str(folder), "--requirement", str(file)]
        subprocess.run(command, check=True)
    wheels = list(folder.glob("*.whl"))
    size = sum(wheel.stat().st_size for wheel in wheels) / 2**20
    print(f"{len(wheels)} wheels, {size:.0f} MiB, in {folder}")


def install(wheels: Path, into: Path) -> None:
    """Makes an environment of all the wheels, without pip, which such a machine may not have."""
    venv.create(into, clear=True, with_pip=False, symlinks=True)
    site = Path(sysconfig.get_path("purelib", "venv", {"base": str(into), "platbase": str(into)}))
    programs = into / "bin"
    for wheel in sorted(wheels.glob("*.whl")):
        unpack(wheel, site, programs)
    write_script(programs, OWN_SCRIPT)
    # What the Python has that runs this comes last, so that the wheels go before it.
    others = [path for path in sys.path if Path(path).name in ("site-packages", "dist-packages")]
    lines = [str(ROOT / "src"), *(f"import site; site.addsitedir({path!r})" for path in others)]
    (site / "checkout.pth").write_text("\n".join(lines) + "\n")
    print(f"{programs / 'python'} has all of {wheels}, the Penstock of {ROOT}, and what {sys.executable} has")


def unpack(wheel: Path, site: Path, programs: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            to = place(member.filename, site, programs)
            if to is None or member.is_dir():
                continue
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_bytes(archive.read(member))
            if member.external_attr >> 16 & 0o111:  # may be run
                to.chmod(0o755)
        for script in scripts(archive):
            write_script(programs, script)


def place(name: str, site: Path, programs: Path) -> Path | None:
    """Where a file of a wheel goes; None for what an environment can do without (headers, manual pages)."""
    parts = PurePosixPath(name).parts
    if len(parts) < 3 or not parts[0].endswith(".data"):
        return site.joinpath(*parts)
    folder = {"purelib": site, "platlib": site, "scripts": programs}.get(parts[1])
    return None if folder is None else folder.joinpath(*parts[2:])


def scripts(archive: zipfile.ZipFile) -> Iterator[str]:
    """The lines such as `name = package.module:function` that a wheel wants programs for."""
    for name in archive.namelist():
        if name.endswith(".dist-info/entry_points.txt"):
            entries = configparser.ConfigParser(delimiters=("=",), interpolation=None)
            entries.read_string(archive.read(name).decode())
            if entries.has_section("console_scripts"):
                yield from (f"{program} = {target}" for program, target in entries.items("console_scripts"))


def write_script(programs: Path, line: str) -> None:
    program, target = (part.strip() for part in line.split("=", 1))
    module, function = target.split("[")[0].strip().split(":")
    path = programs / program
    path.write_text(
        f"#!{programs.resolve() / 'python'}\nimport sys\nfrom {module} import {function.split('.')[0]}\n"
        f"sys.exit({function}())\n"
    )
    path.chmod(0o755)


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.wheels", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    does = parser.add_subparsers(required=True)
    collecting = does.add_parser("collect")
    collecting.add_argument("--python", default="3.12", help="the version of the machine that they are for")
    collecting.set_defaults(run=lambda given: collect(given.python, given.wheels))
    installing = does.add_parser("install")
    installing.add_argument("into", type=Path)
    installing.set_defaults(run=lambda given: install(given.wheels, given.into.absolute()))
    for each in (collecting, installing):
        each.add_argument("--wheels", type=Path, default=WHEELS, metavar="FOLDER")
    given = parser.parse_args([*argv])
    os.umask(0o022)
    given.run(given)


if __name__ == "__main__":
    main(sys.argv[1:])
