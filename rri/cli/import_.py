"""`rri import`: rubrics and tasks that a user has already become drafts of a run, to be attacked and repaired."""

import asyncio
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rri.cli.console import ProgressLine, progress_line
from rri.cli.opening import given_config, open_folder, saved_config
from rri.cli.run import interruptible
from rri.config import RunConfig, Sources
from rri.errors import TaskFileError
from rri.service.material import Material, solver_prompt
from rri.store import Origin, Store
from rri.taskfile import BroughtTask, RefusedLine, read_brought
from rri.types import Task

__all__ = ["SortedLines", "import_command", "sort_lines", "too_long", "unfit"]


@dataclass(frozen=True, slots=True)
class SortedLines:
    """What becomes of the lines of a file: kept as drafts, left out as known already, or refused."""

    tasks: tuple[Task, ...]
    in_file: int
    in_run: int
    refused: tuple[RefusedLine, ...]
    canaries: int


def sort_lines(
    rows: Sequence[BroughtTask | RefusedLine],
    known: Mapping[str, str],
    ids: Sequence[str],
    refuse: Callable[[Task], str] = lambda task: "",
) -> SortedLines:
    """Each line once: the same content is one task, and an id is of one task.

    Args:
        rows: as they were read, in order.
        known: digest -> task id of what the run holds.
        ids: ids that the run has given.
        refuse: why the run cannot take a task; empty where it can.
    """
    tasks: list[Task] = []
    refused: list[RefusedLine] = []
    seen: set[str] = set()
    lines = {task_id: 0 for task_id in ids}
    in_file = in_run = canaries = 0
    for row in rows:
        if isinstance(row, RefusedLine):
            refused.append(row)
            continue
        task, digest = row.task, row.task.digest
        if digest in known or digest in seen:
            in_run, in_file = in_run + (digest in known), in_file + (digest not in known)
            continue
        taken = lines.get(task.task_id)
        if taken is not None:
            where = f"line {taken}" if taken else "the run"
            refused.append(RefusedLine(row.line, f"{where} has another task of id {task.task_id!r}"))
        elif why := refuse(task):
            refused.append(RefusedLine(row.line, why))
        else:
            tasks.append(task)
            seen.add(digest)
            lines[task.task_id] = row.line
            canaries += row.canary
    return SortedLines(tuple(tasks), in_file, in_run, tuple(refused), canaries)


def unfit(config: RunConfig, material: Material) -> Callable[[Task], str]:
    """Why a run cannot take a task: its prompt, standing instructions included, is too long for the solver, or it is
    kept apart for validation.
    """
    long, held_out = too_long(config, material), material.held_out.refuser()
    return lambda task: long(task) or held_out(task)


def too_long(config: RunConfig, material: Material) -> Callable[[Task], str]:
    """Why a task's prompt, standing instructions included, is too long for the solver; empty where it is not."""

    def why(task: Task) -> str:
        length = material.tokenizer.count_prompt(solver_prompt(config, task.conversation))
        limit = config.solver.max_prompt_tokens
        return f"its prompt has {length} tokens, the solver takes {limit}" if length > limit else ""

    return why


def import_command(
    directory: Path,
    file: Path,
    source: Sources | None,
    overrides: Mapping[str, Any],
    *,
    skip_bad: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Keep the tasks of a file as drafts, all or none; exit code 0.

    Raises:
        TaskFileError: the file cannot be read, lines of it are refused, or every line is.
        RunLocked: another process owns the run.
    """
    config = given_config(directory, source, overrides) or saved_config(directory)
    rows = read_brought(file, config.generation.rubric)
    with interruptible(), progress_line(quiet) as line:
        # A file that is wrong in itself is refused before a directory is made for it.
        _check(sort_lines(rows, {}, []), file, len(rows), line, skip_bad=skip_bad)
        with open_folder(directory, source, overrides, line.say) as (folder, config, material):
            store = Store(folder.path)
            try:
                sorted_ = sort_lines(rows, store.digests(), store.task_ids(), unfit(config, material))
                _check(sorted_, file, len(rows), line, skip_bad=skip_bad)
                waiting = len(store.servable()) + len(store.drafts())
                asyncio.run(store.add_drafts(sorted_.tasks, Origin(source="imported")))
            finally:
                store.close()
        for refused in sorted_.refused:
            line.say(f"{file}, line {refused.line}: {refused.why}")
    target = config.generation.tasks
    outcome = _as_data(directory, sorted_, target, max(0, target - waiting))
    sys.stdout.write(json.dumps(outcome) + "\n" if as_json else "".join(f"{line}\n" for line in _lines(outcome)))
    return 0


def _check(found: SortedLines, file: Path, lines: int, line: ProgressLine, *, skip_bad: bool) -> None:
    """Raises:
    TaskFileError: lines are refused and may not be left out, or nothing would be left.
    """
    n = len(found.refused)
    if not n or (skip_bad and n < lines):
        return
    for refused in found.refused:
        line.say(f"{file}, line {refused.line}: {refused.why}")
    fix = "Correct them" if skip_bad else "Correct them, or import the others with --skip-bad"
    if any("are allowed" in r.why and "criteria" in r.why for r in found.refused):
        fix += ". Longer rubrics need a larger generation.rubric.max_criteria_repaired"
    raise TaskFileError(f"{file}: {n} of {lines} lines are refused, nothing was imported", fix)


def _as_data(directory: Path, found: SortedLines, target: int, room: int) -> dict[str, Any]:
    return {
        "directory": str(directory),
        "imported": len(found.tasks),
        "task_ids": [task.task_id for task in found.tasks],
        "duplicates": {"in_file": found.in_file, "in_run": found.in_run},
        "refused": [{"line": r.line, "why": r.why} for r in found.refused],
        "canaries": found.canaries,
        "target": target,
        "room": room,
    }


def _lines(outcome: dict[str, Any]) -> list[str]:
    """The outcome in words."""
    n, room, directory = outcome["imported"], outcome["room"], outcome["directory"]
    lines = [f"{n} {_tasks(n)} imported into {directory}, as drafts that the next start attacks first"]
    if same := sum(outcome["duplicates"].values()):
        twice, known = outcome["duplicates"]["in_file"], outcome["duplicates"]["in_run"]
        lines.append(f"{same} left out as duplicates: {twice} of another line, {known} of what the run has")
    if refused := len(outcome["refused"]):
        lines.append(f"{refused} {'line' if refused == 1 else 'lines'} refused")
    if outcome["canaries"]:
        spoilt = "a solver that trained on them cannot be measured on that benchmark"
        lines.append(f"{outcome['canaries']} carry a benchmark's canary: {spoilt}")
    limit = f"generation.tasks is {outcome['target']}"
    if n > room:
        needed = outcome["target"] + n - room
        lines.append(
            f"{limit} and has room for {room} of them; the others stay drafts. Make room in a new run: "
            f"rri fork {directory} NEW -s generation.tasks={needed}"
        )
    elif n:
        lines.append(f"{limit}: room for all of them, and {room - n} more will be written")
    return lines


def _tasks(n: int) -> str:
    return "task" if n == 1 else "tasks"
