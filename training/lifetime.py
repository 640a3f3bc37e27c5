"""How the trainer process ends: with its parent, or with an exit code that its parent can read."""

import ctypes
import json
import os
import signal
import sys
from pathlib import Path

from rri.errors import RriError, ServiceUnavailable

__all__ = ["EXIT_FILE", "EX_TEMPFAIL", "clear_exit", "die_with_parent", "exit_code_of", "record_exit"]

EX_TEMPFAIL = 75
"""Exit code when the service stayed away: nothing is wrong, start the trainer again later (sysexits.h)."""

EXIT_FILE = "trainer_exit.json"
"""File in the run directory with code and message of the last failure: launchers turn every code into 1."""

PR_SET_PDEATHSIG = 1
# Read at import, which comes first in the trainer: by the time that torch is loaded the parent may be gone.
_PARENT = os.getppid()


def die_with_parent() -> None:
    """Have the kernel kill this process when its launcher dies, whatever the launcher dies of.

    Holds for accelerate's own launcher and for the torchrun-like one: both start the ranks as direct
    children from their main thread. Elsewhere than on Linux nothing happens.
    """
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The signal is sent only for a death that comes after the call. The comparison is with the first parent
    # rather than with 1, because a launcher may itself be process 1 of a container.
    if os.getppid() != _PARENT:
        os.kill(os.getpid(), signal.SIGKILL)


def exit_code_of(error: RriError) -> int:
    """75 where waiting helps, else the error's own code (see rri.errors)."""
    return EX_TEMPFAIL if isinstance(error, ServiceUnavailable) else error.exit_code


def record_exit(run: Path, error: RriError) -> None:
    """Leave code and message in EXIT_FILE; with several ranks the last one to fail is kept, all fail alike."""
    scratch = run / f".{EXIT_FILE}.{os.getpid()}"
    scratch.write_text(json.dumps({"code": exit_code_of(error), "message": str(error)}), encoding="utf-8")
    os.replace(scratch, run / EXIT_FILE)


def clear_exit(run: Path) -> None:
    """Forget the failure of an earlier start."""
    (run / EXIT_FILE).unlink(missing_ok=True)
