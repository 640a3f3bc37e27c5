"""`rri world`: the arms in a world whose truth is known."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eval.world.cells import Cell, ablation_cells, arm_cells, stress_cells
from eval.world.comparison import comparison
from eval.world.findings import WORLD, Comparison
from eval.world.harness import CellFailed, finished_cells, run_cells
from eval.world.heldout import read_answers
from eval.world.pictures import draw
from eval.world.results import ANSWERS
from eval.world.running import CELLS
from eval.world.scale import Scale
from eval.world.tables import markdown, screen
from rri.cli.console import progress_line
from rri.cli.run import interruptible
from rri.config import apply_overrides
from rri.errors import InputError, TrainerFailed
from rri.rundir import write_atomically

__all__ = ["world_command"]

TABLES, PICTURE = "world.md", "world.png"
WIDTH = 100
"""Columns that the tables need; in fewer their figures would be cut."""


def world_command(
    out: Path,
    arms: str,
    seeds: str,
    overrides: Mapping[str, Any],
    *,
    ablations: int | None,
    stresses: int | None,
    jobs: int,
    quiet: bool,
    as_json: bool,
) -> int:
    """Run what is not finished of the cells asked for, and report on all cells of the folder.

    Args:
        out: folder of the comparison.
        arms, seeds: comma-separated.
        overrides: sizes that differ from the proving ground's.
        ablations, stresses: seed to run them with; None leaves them out.
        jobs: cells at once.

    Raises:
        InputError: no such arm or size, or the folder was begun with other sizes.
        TrainerFailed: a cell did not finish. The report on the others is written.
    """
    cells = arm_cells([name.strip() for name in arms.split(",") if name.strip()], _numbers(seeds))
    cells += ablation_cells(ablations) if ablations is not None else []
    cells += stress_cells(stresses) if stresses is not None else []
    scale = _scale(overrides)
    with interruptible(), progress_line(quiet) as line:
        failed = run_cells(out, cells, scale, jobs=jobs, progress=line.say)
        found = _report(out)
    if found is not None:
        if as_json:
            sys.stdout.write(f"{found.model_dump_json()}\n")
        else:
            Console(width=max(WIDTH, Console().width)).print(screen(found))
            sys.stdout.write(f"{out / WORLD}  {out / TABLES}  {out / PICTURE}\n")
    _refuse(out, cells, failed)
    return 0


def _numbers(seeds: str) -> list[int]:
    try:
        found = [int(word) for word in seeds.split(",") if word.strip()]
    except ValueError:
        found = []
    if not found or min(found) < 0:
        raise InputError(f"--seeds {seeds!r} holds no seeds", "Write for example --seeds 0,1,2")
    return found


def _scale(overrides: Mapping[str, Any]) -> Scale:
    data = Scale().model_dump(mode="json")
    apply_overrides(data, overrides)
    return Scale.read(data, "--set")


def _report(out: Path) -> Comparison | None:
    """Write figures, tables and picture of all finished cells; None without any."""
    results = finished_cells(out)
    if not results:
        return None
    answers = {name: read_answers(out / CELLS / name / ANSWERS) for name in results}
    found = comparison(results, answers)
    found.write(out)
    write_atomically(out / TABLES, markdown(found))
    draw(results, out / PICTURE)
    return found


def _refuse(out: Path, cells: Sequence[Cell], failed: Sequence[CellFailed]) -> None:
    if failed:
        first = failed[0]
        raise TrainerFailed(
            f"{len(failed)} of {len(cells)} cells did not finish; {first.name} said: {first.why}",
            f"Look at {out / CELLS / first.name}.log, then run the same command again: it goes on where it stopped",
        )
