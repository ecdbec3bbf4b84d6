"""Puts the advice of `penstock tune --apply` in force: writes it into the configuration file and sends SIGHUP to
the server that reads it. Only `cli/tune.py` calls this."""

import os
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct, convert

from penstock.cli.ask_admin import ask
from penstock.config.config import DEFAULT
from penstock.config.edited import edited
from penstock.config.toml import KeyPath, dotted, toml
from penstock.errors import UserMistake

PATIENCE, BETWEEN = 10.0, 0.1  # seconds in which a server follows, and between two looks


class Row(Struct):
    """A setting, as the admin plane says it."""

    key: str
    value: str
    source: str


class InForce(Struct):
    """What is read of `/internal/config`."""

    settings: list[Row] = []
    pid: int = 0
    host: str = ""


class Process(Struct):
    """A process of the installation, as the admin plane says it."""

    host: str
    pid: int | None
    name: str = ""
    admin: str = ""  # its admin plane


class Installation(Struct):
    """What is read of `/internal/health`. Over Redis it lists all processes."""

    processes: list[Process] = []


def refuse_what_cannot_be_applied(in_force: InForce, values: Sequence[KeyPath], file: Path | None) -> None:
    """Raises UserMistake where writing into the file would be in vain."""
    if file is None or not file.is_file():
        raise UserMistake(
            "--apply writes into the server's penstock.toml, and none is here: name it with --config"
            + (f" ({file} does not exist)" if file else "")
        )
    if in_force.host and in_force.host != socket.gethostname():
        raise UserMistake(
            f"--apply sends a signal to a process of this machine, and the server is on {in_force.host}: run it"
            " there, or write the fragment into its file and signal it"
        )
    for path in values:
        said = next((each for each in in_force.settings if each.key == dotted(path)), None)
        source = DEFAULT if said is None else said.source
        if source.startswith(("--", "PENSTOCK_")):
            raise UserMistake(
                f"{dotted(path)} is set by {source}, which wins over the file: start the server without it"
            )


def apply(server: str, file: Path, values: Mapping[KeyPath, object]) -> Iterator[str]:
    """Writes the values into the file, signals the processes, and waits until the server goes by them. Yields a
    line for each step. Raises UserMistake."""
    text = file.read_text(encoding="utf-8-sig")
    changed = edited(text, values)
    processes = _processes(server)
    try:
        _replace(file, changed)
    except OSError as error:
        raise UserMistake(f"cannot write {file}: {error.strerror}") from None
    yield f"{file}: {', '.join(f'{dotted(path)} = {toml(value)}' for path, value in values.items())}"
    own = socket.gethostname()
    here = [process for process in processes if process.host == own and process.pid]
    for process in here:
        assert process.pid is not None
        _signal(process.pid)
    elsewhere = sorted({process.host for process in processes if process.host != own})
    yield f"SIGHUP sent to {_count(len(here))}"
    if elsewhere:
        yield f"Processes on {', '.join(elsewhere)} have files of their own: change and signal them there."
    _wait_until_followed([process.admin or server for process in here], values, all_here=not elsewhere)
    yield "It is in force on this machine." if elsewhere else "It is in force now."


def _processes(server: str) -> list[Process]:
    """Returns the processes of the installation, or the server's own."""
    over_redis = convert(ask(server, "/internal/health", option="--from"), Installation).processes
    if over_redis:
        return over_redis
    said = convert(ask(server, "/internal/config", option="--from"), InForce)
    if not said.pid:
        raise UserMistake(
            f"{server} does not say its process: it is of another version; send SIGHUP yourself"
        )
    return [Process(said.host, said.pid)]


def _replace(file: Path, text: str) -> None:
    """Writes beside the file and renames, so that a server never reads half of it. A link stays one."""
    file = file.resolve()
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.chmod(file.stat().st_mode & 0o7777)
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)


def _signal(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGHUP)
    except ProcessLookupError:
        raise UserMistake(
            f"process {pid} has ended; the file is changed, and its successor reads it"
        ) from None
    except PermissionError:
        raise UserMistake(
            f"the file is changed, but this user may not signal process {pid}: kill -HUP {pid} as its user"
        ) from None


def _wait_until_followed(admins: Sequence[str], values: Mapping[KeyPath, object], *, all_here: bool) -> None:
    """Waits until every process that has one of these settings goes by the file. Over Redis only workers have those
    of a model; batchers follow them. `all_here`: whether some process of this machine must have each setting.
    Raises UserMistake."""
    wanted = {dotted(path): toml(value) for path, value in values.items()}
    until = time.monotonic() + PATIENCE
    while True:
        said = [convert(ask(admin, "/internal/config", option="--from"), InForce) for admin in admins]
        rows = [row for each in said for row in each.settings if row.key in wanted]
        missing = {row.key for row in rows if row.value != wanted[row.key]}
        if all_here:
            missing |= wanted.keys() - {row.key for row in rows}
        if not missing:
            return
        if time.monotonic() > until:
            raise UserMistake(
                f"the server does not go by {', '.join(sorted(missing))}: does it read this file? Its log says what"
                " it read"
            )
        time.sleep(BETWEEN)


def _count(number: int) -> str:
    return f"{number} process{'' if number == 1 else 'es'}"
