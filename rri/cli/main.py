"""The command line. Commands load lazily, so that `rri --help` answers at once."""

import sys
import traceback

from rri.cli import commands, questions  # noqa: F401  (they register their commands)
from rri.cli.app import STATE, app
from rri.errors import RriError

__all__ = ["app", "main"]


def main() -> None:
    """Entry point: errors of ours are one line, and the exit code tells their kind."""
    try:
        app()
    except RriError as error:
        if STATE["debug"]:
            traceback.print_exc()
        print(f"error: {error}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
