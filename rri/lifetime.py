"""Children that end with their parent, even when the parent is killed."""

import ctypes
import os
import signal
import sys

__all__ = ["die_with_parent", "leashed"]

_PR_SET_PDEATHSIG = 1
# Read at import: a child that loads heavy libraries before it calls may have lost its parent by then.
_PARENT = os.getppid()


def leashed(command: list[str]) -> list[str]:
    """`command` started through this module, so that it ends with the process that starts it."""
    return [sys.executable, "-m", "rri.lifetime", *command]


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (Linux; elsewhere nothing happens).

    Import this module first thing in the child: a parent that dies after the import is noticed. The comparison
    is with the first parent rather than with 1, because a launcher may itself be process 1 of a container.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _PARENT:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    die_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])
