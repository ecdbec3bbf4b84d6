"""The command line: one thin file a command, and one place where mistakes become one line and exit code 2.

`main` is the program `penstock`; no other room imports this one. A command reads its options, loads the
configuration and calls a role, a room such as `sim`, `bench` or `advice`, or the admin plane of a running server.
It builds nothing itself, and imports no `core`, `runtime`, `cluster`, plane or adapter.
"""

import os
import re
import sys
import traceback

# Typer's words for a value of the wrong kind, and ours.
_WRONG_VALUE = re.compile(r"Invalid value for '([^']+)'(?: / '[^']+')*: Input should be ")
_OF_KINDS = (
    (re.compile(r", unable to parse string as an? \w+"), ""),
    (re.compile(r"a valid integer\b"), "a whole number"),
    (re.compile(r"a valid number\b"), "a number"),
    (re.compile(r"greater than or equal to"), "at least"),
    (re.compile(r"less than or equal to"), "at most"),
)


def main() -> int:
    """Runs the command that the program's arguments name. Returns the exit code."""
    import typer

    from penstock.cli.app import app_for
    from penstock.errors import UserMistake

    misused: type[Exception] = typer.BadParameter.__bases__[0]  # its UsageError, which has no public name
    try:
        result = app_for(sys.argv[1:])(standalone_mode=False)
    except UserMistake as mistake:
        return _told(mistake.message, mistake.details)
    except misused as misuse:
        return _told(_plain(misuse))
    except (KeyboardInterrupt, typer.Abort):
        return 130
    return result if isinstance(result, int) else 0


def _told(message: str, details: str = "") -> int:
    """Prints a mistake, and with --debug its details. Returns the exit code."""
    if message:
        print(f"penstock: {message}", file=sys.stderr)
    if "--debug" in sys.argv or os.environ.get("PENSTOCK_DEBUG", "").lower() in ("1", "true", "yes", "on"):
        print(details or traceback.format_exc(), file=sys.stderr)
    return 2


def _plain(misuse: Exception) -> str:
    """Returns the message for a wrong option or a missing argument, and where to look; empty if the help was shown
    instead."""
    message = " ".join(str(getattr(misuse, "format_message", misuse.__str__)()).split()).rstrip(".")
    message, found = _WRONG_VALUE.subn(r"\1 must be ", message)
    for theirs, ours in _OF_KINDS if found else ():
        message = theirs.sub(ours, message)
    context = getattr(misuse, "ctx", None)
    hint = f" (see {context.command_path} --help)" if context is not None else ""
    return message and message + hint
