"""Children that end with their parent, even when the parent is killed."""

import ctypes
import os
import signal
import sys

__all__ = ["die_with_parent", "leashed"]

_PR_SET_PDEATHSIG = 1


def leashed(command: list[str]) -> list[str]:
    """`command` started through this module, so that it ends with the process that starts it."""
    return [sys.executable, "-m", "rri.lifetime", *command]


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies (Linux; elsewhere nothing happens).

    Call it first thing in the child: a parent that dies during the call is noticed, one that died before is not.
    """
    if sys.platform != "linux":
        return
    parent = os.getppid()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    die_with_parent()
    os.execvp(sys.argv[1], sys.argv[1:])
