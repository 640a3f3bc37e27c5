"""`rri` commands in processes that can be killed, forked from one that has imported the slow libraries already."""

import ctypes
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Forge", "serve_forks"]

ROOT = Path(__file__).parents[1]
PR_SET_PDEATHSIG = 1


class Forge:
    """Starts commands. What still runs at the end of the block is killed."""

    def __enter__(self) -> Self:
        code = "from tests.forks import serve_forks; serve_forks()"
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Its children are leashed to it.
        self._process.kill()
        self._process.communicate()

    def start(self, log: Path, *arguments: str) -> int:
        """`rri ARGUMENTS` in a new process, its output in `log`; the process id."""
        return self._ask({"start": arguments, "log": str(log)})

    def wait(self, pid: int) -> int:
        """Wait for its end; the exit code, or minus the signal that killed it."""
        return self._ask({"wait": pid})

    def _ask(self, order: Any) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(order)}\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


# --- in the process of the forge ---------------------------------------------------------------------


def serve_forks() -> None:
    """Carry out orders from standard input, one a line, until it is closed."""
    import chromadb  # noqa: F401
    import sentence_transformers  # noqa: F401

    import rri.cli.run  # noqa: F401

    for line in sys.stdin:
        order = json.loads(line)
        if "start" in order:
            answer = os.fork() or _run(order["start"], order["log"])
        else:
            _, status = os.waitpid(order["wait"], 0)
            answer = os.waitstatus_to_exitcode(status)
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def _run(arguments: list[str], log: str) -> int:
    """The child's life; never returns."""
    from rri.cli.main import main

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream, target in ((0, os.open(os.devnull, os.O_RDONLY)), (1, output), (2, output)):
        os.dup2(target, stream)
    sys.argv = ["rri", *arguments]
    code = 1
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    except BaseException:  # noqa: BLE001  (whatever it is ends this process and stands in its log)
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
