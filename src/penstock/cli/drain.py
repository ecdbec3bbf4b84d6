"""`penstock drain`: has a running process finish what it has accepted, before something stops it. It asks the admin
plane over HTTP (`ask_admin.py`)."""

from typing import Annotated

import typer

from penstock.cli.ask_admin import USUAL, Admin, ask
from penstock.cli.options import seconds_of
from penstock.errors import UserMistake


def drain(
    admin: Admin = USUAL,
    wait: Annotated[
        str,
        typer.Option(
            "--wait", help="Longest wait for the answer; above server.drain and server.drain_grace."
        ),
    ] = "10m",
) -> int:
    """Let a process take nothing new, and wait until it has answered what it has accepted. Then stop it.

    It goes on to answer probes: /livez with 200, /readyz with 503. Made for what stops processes, such as a preStop
    hook of Kubernetes; SIGTERM alone drains too.

    Example: penstock drain --admin http://127.0.0.1:9000
    """
    said = ask(admin, "/drain", "POST", patience=seconds_of(wait, "--wait"))
    if not said["drained"]:
        raise UserMistake(
            f"not all was finished within server.drain: {said['unfinished']} requests are open, and fail when the"
            " process is stopped"
        )
    typer.echo("drained")
    return 0
