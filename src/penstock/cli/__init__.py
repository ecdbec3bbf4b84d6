"""The command line: one thin file a command, and one place where mistakes become one line and exit code 2."""

import sys
import traceback


def main() -> int:
    from penstock.cli.app import app
    from penstock.errors import UserMistake

    debug = "--debug" in sys.argv
    try:
        result = app(standalone_mode=False)
    except UserMistake as mistake:
        print(f"penstock: {mistake.message}", file=sys.stderr)
        if debug:
            print(mistake.details or traceback.format_exc(), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return result if isinstance(result, int) else 0
