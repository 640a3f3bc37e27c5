"""How the trainer ends, and tells its parent why."""

import atexit
import json
import logging
import os
import sys
from pathlib import Path
from typing import NoReturn

from rri.errors import RriError, ServiceUnavailable

__all__ = ["EXIT_FILE", "EX_TEMPFAIL", "clear_exit", "exit_code_of", "leave", "record_exit"]

EX_TEMPFAIL = 75
"""Exit code when the service stayed away: nothing is wrong, start the trainer again later (sysexits.h)."""

EXIT_FILE = "trainer_exit.json"
"""File in the run directory with code and message of the last failure: launchers turn every code into 1."""


def exit_code_of(error: Exception) -> int:
    """75 where waiting helps, else the error's own code (see rri.errors), 1 for one that is not ours."""
    if isinstance(error, ServiceUnavailable):
        return EX_TEMPFAIL
    return error.exit_code if isinstance(error, RriError) else 1


def record_exit(run: Path, error: Exception) -> None:
    """Leave code and message in EXIT_FILE, also where several ranks fail.

    Ranks that fail for a reason of ours fail alike, and the last one is kept. One that only lost its peers, which no
    error of ours says, does not overwrite the reason.
    """
    if not isinstance(error, RriError) and (run / EXIT_FILE).exists():
        return
    scratch = run / f".{EXIT_FILE}.{os.getpid()}"
    scratch.write_text(
        json.dumps({"code": exit_code_of(error), "message": str(error) or type(error).__name__}), encoding="utf-8"
    )
    os.replace(scratch, run / EXIT_FILE)


def clear_exit(run: Path) -> None:
    """Forget the failure of an earlier start."""
    (run / EXIT_FILE).unlink(missing_ok=True)


def leave(code: int) -> NoReturn:
    """End this process with its exit handlers, and without destructors.

    Those of gloo and DeepSpeed abort the process now and then when another rank has gone before, and a finished
    training would count as failed.
    """
    atexit._run_exitfuncs()
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
