"""All cells of a comparison, each in a process of its own, so that one that fails or is killed takes no other along."""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from eval.world.cells import Cell
from eval.world.results import CellResult, read_result
from eval.world.running import CELLS
from eval.world.scale import Scale
from rri.errors import InputError, RunDirError
from rri.lifetime import leashed
from rri.rundir import write_atomically

__all__ = ["SCALE", "CellFailed", "finished_cells", "keep_scale", "run_cells"]

SCALE = "scale.json"
"""File in the comparison's folder: the sizes that all of its cells share."""

Progress = Callable[[str], None]


@dataclass(frozen=True)
class CellFailed:
    """A cell that did not finish: its name, and the last line that it said."""

    name: str
    why: str


def keep_scale(directory: Path, scale: Scale) -> None:
    """Write the sizes beside the cells at the first start; later starts must have the same.

    Raises:
        InputError: the folder was begun with other sizes.
        RunDirError: it cannot be written.
    """
    path = directory / SCALE
    try:
        directory.mkdir(parents=True, exist_ok=True)
        text = path.read_text(encoding="utf-8") if path.exists() else None
    except OSError as error:
        raise RunDirError(f"cannot use {directory}: {error.strerror}", "Choose another folder") from None
    if text is None:
        write_atomically(path, f"{scale.model_dump_json(indent=1)}\n")
    elif (kept := Scale.read(text, str(path))) != scale:
        before, now = kept.model_dump(), scale.model_dump()
        changed = ", ".join(f"{name} {before[name]} -> {now[name]}" for name in now if before[name] != now[name])
        raise InputError(f"{directory} was begun with other sizes ({changed})", "Choose another folder")


def run_cells(
    directory: Path, cells: Sequence[Cell], scale: Scale, *, jobs: int = 2, progress: Progress = lambda message: None
) -> list[CellFailed]:
    """Run what is not finished of `cells`, `jobs` at once; the ones that failed.

    Args:
        directory: of the comparison. Each cell logs to `cells/NAME.log` in it.
        cells: what to run, in this order.
        scale: sizes; those of the folder's first start.
        jobs: cells at once. Each is worth about a core and a half.
        progress: is told of each cell's steps.

    Raises:
        InputError, RunDirError: see `keep_scale`.
    """
    keep_scale(directory, scale)
    (directory / CELLS).mkdir(exist_ok=True)
    open_cells = [cell for cell in cells if read_result(directory / CELLS / cell.name) is None]
    if done := len(cells) - len(open_cells):
        progress(f"{done} of {len(cells)} cells are finished")
    children = _Children(progress)
    threads = max(1, (os.cpu_count() or 1) // max(1, min(jobs, len(open_cells))))
    # A child ends with the thread that starts it, so a thread waits for its cell to the end.
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as pool:
        try:
            found = list(pool.map(lambda cell: children.run(directory, cell, scale, threads), open_cells))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            children.end()
            raise
    return [failure for failure in found if failure is not None]


class _Children:
    """The processes of the cells under way."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._ended = False

    def run(self, directory: Path, cell: Cell, scale: Scale, threads: int) -> CellFailed | None:
        """One cell to its end; what it says goes to its log and to `progress`."""
        command = [sys.executable, "-m", "eval.world.running", str(directory), cell.name]
        command += ["--scale", json.dumps(scale.model_dump(mode="json"))]
        # Two trainers that each take every core are slower than two that share them.
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ}
        last = "no output"
        with self._lock:
            if self._ended:
                return CellFailed(cell.name, "not begun")
            process = subprocess.Popen(
                leashed(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
            )
            self._running.add(process)
        assert process.stdout is not None
        try:
            with process.stdout, (directory / CELLS / f"{cell.name}.log").open("a", encoding="utf-8") as log:
                for line in process.stdout:
                    log.write(line)
                    log.flush()
                    last = line.strip() or last
                    with self._lock:
                        self._progress(f"{cell.name}: {line.strip()}")
        except BaseException:
            self.end()
            raise
        finally:
            code = process.wait()
            with self._lock:
                self._running.discard(process)
        return None if code == 0 else CellFailed(cell.name, last)

    def end(self) -> None:
        """End all of them, with the runs that they have started."""
        with self._lock:
            self._ended = True
            for process in self._running:
                process.terminate()


def finished_cells(directory: Path) -> dict[str, CellResult]:
    """Name -> result of every finished cell in the folder.

    Raises:
        InputError: a result cannot be read.
    """
    folders = sorted(path for path in (directory / CELLS).glob("*") if path.is_dir())
    found = ((folder.name, read_result(folder)) for folder in folders)
    return {name: result for name, result in found if result is not None}
