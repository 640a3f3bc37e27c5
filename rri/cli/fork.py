"""`rri fork`: a new run that starts from another run's tasks, guidance and memo."""

import asyncio
import contextlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from rri.cases import GuidanceVersion, MemoVersion
from rri.cli.console import ProgressLine, progress_line
from rri.cli.import_ import too_long
from rri.cli.opening import open_folder
from rri.cli.run import interruptible
from rri.config import RunConfig, load_config
from rri.errors import RunDirError, RunLocked
from rri.evidence import Admission
from rri.rundir import CONFIG, MANIFEST, RunDir, write_atomically
from rri.service.assembly import first_texts
from rri.store import Origin, Store
from rri.store.database import DATABASE
from rri.types import Task

__all__ = ["ForkedFrom", "copy_tasks", "fork_command"]

BATCH = 64
"""Tasks in one commit."""
NAMED = 10
"""Most tasks that the screen names of those left behind for one reason."""

Refusals = Mapping[str, Callable[[Task], str]]
"""Reason, as `ForkedFrom` has it -> why a task must be left behind for it, empty where it need not."""


@dataclass(frozen=True, slots=True)
class ForkedFrom:
    """What a run has of the one that it began from; it stands in the manifest.

    `cycle` is the latest one that was reported there. `guidance` and `memo` are the versions there that are version 0
    here, None where they come from elsewhere. `servable` tasks were in its pool, `drafts` are still to be attacked, and
    so many were `left_behind`: the ids `held_out` ask, in some version, what a validation task of the new run asks, and
    the prompts of `too_long` do not fit the new solver.
    """

    run_id: str
    path: str
    cycle: int | None
    guidance: int | None = None
    memo: int | None = None
    servable: int = 0
    drafts: int = 0
    left_behind: int = 0
    held_out: tuple[str, ...] = ()
    too_long: tuple[str, ...] = ()


def fork_command(
    directory: Path,
    new: Path,
    layers: Sequence[str],
    overrides: Mapping[str, Any],
    *,
    as_drafts: bool,
    quiet: bool,
    as_json: bool,
) -> int:
    """Make the new run, whole or not at all; exit code 0.

    Raises:
        RunDirError: there is nothing to start from, or the new directory is not empty.
        ConfigError: the changed config is wrong.
    """
    parent = RunDir.existing(directory)
    if not (directory / DATABASE).is_file():
        raise RunDirError(f"{directory} holds no task yet", "Start it with: rri run DIR")
    _check_empty(new)
    with interruptible(), progress_line(quiet) as line, contextlib.closing(Store(directory)) as store:
        sources = [str(directory / CONFIG), *layers]
        texts = _texts(store, parent, load_config(sources, overrides))
        if texts is not None:
            # They are kept with the run; a file that it began with has no more say.
            overrides = {**overrides, "evolution.start": ""}
        with _scratch(new) as scratch, open_folder(scratch, sources, overrides, line.say) as (folder, config, material):
            refusals = {"held_out": material.held_out.refuser(), "too_long": too_long(config, material)}
            forked = _fill(folder, parent, store, texts, refusals, as_drafts=as_drafts, line=line)
            _put(scratch, new)
    if as_json:
        sys.stdout.write(json.dumps({"directory": str(new), "arm": config.arm, **asdict(forked)}) + "\n")
    else:
        sys.stdout.write("".join(f"{text}\n" for text in _lines(new, forked, config)))
    return 0


# -- the directory --------------------------------------------------------------------------------------


def _check_empty(new: Path) -> None:
    if new.exists() and (not new.is_dir() or any(new.iterdir())):
        raise RunDirError(f"{new} is there and not empty", "Name a new directory")


@contextlib.contextmanager
def _scratch(new: Path) -> Iterator[Path]:
    """Where the new run is made until it is whole; what a kill has left there goes first.

    Raises:
        RunLocked: another process makes this very run.
    """
    scratch = new.absolute().with_name(f".{new.absolute().name}.fork")
    if (owner := RunDir(scratch).owner()) is not None:
        raise RunLocked(f"{new} is being made by process {owner}", "Wait for it, or stop it")
    try:
        if scratch.exists():
            shutil.rmtree(scratch)
    except OSError as error:
        raise RunDirError(f"cannot remove {scratch}, left by a kill: {error.strerror}", "Remove it") from None
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _put(scratch: Path, new: Path) -> None:
    try:
        os.rename(scratch, new)
    except OSError as error:
        raise RunDirError(f"cannot make {new}: {error.strerror}", "Choose another directory") from None


# -- what it starts with --------------------------------------------------------------------------------


Texts = tuple[GuidanceVersion, MemoVersion]


def _texts(store: Store, parent: RunDir, config: RunConfig) -> Texts | None:
    """The texts in force; None where the new run begins with others.

    Raises:
        ConfigError: the file that the changes name cannot be used.
    """
    if config.evolution.start and config.evolution.start != parent.config().evolution.start:
        first_texts(config)
        return None
    guidance, memos = store.guidance_versions(), store.memo_versions()
    return (guidance[-1], memos[-1]) if guidance and memos else None


def _fill(
    folder: RunDir,
    parent: RunDir,
    store: Store,
    texts: Texts | None,
    refusals: Refusals,
    *,
    as_drafts: bool,
    line: ProgressLine,
) -> ForkedFrom:
    """Copy what the new run starts with, and note in its manifest where that is from."""
    run_id, last = str(parent.manifest()["run_id"]), store.last_report()
    with contextlib.closing(Store(folder.path)) as new:
        servable, drafts, left = asyncio.run(copy_tasks(store, new, refusals, line, as_drafts=as_drafts))
        if texts is not None:
            asyncio.run(new.begin_texts(*_renumbered(*texts, run_id)))
    forked = ForkedFrom(
        run_id=run_id,
        path=str(parent.path),
        cycle=last.cycle if last is not None else None,
        guidance=texts[0].version if texts is not None else None,
        memo=texts[1].version if texts is not None else None,
        servable=servable,
        drafts=drafts,
        left_behind=sum(map(len, left.values())),
        held_out=left["held_out"],
        too_long=left["too_long"],
    )
    manifest = {**folder.manifest(), "forked_from": asdict(forked)}
    write_atomically(folder.path / MANIFEST, json.dumps(manifest, indent=2) + "\n")
    return forked


def _renumbered(guidance: GuidanceVersion, memo: MemoVersion, run_id: str) -> Texts:
    first = GuidanceVersion(
        version=0,
        guidance_a=guidance.guidance_a,
        guidance_b=guidance.guidance_b,
        summary=f"version {guidance.version} of run {run_id}",
    )
    return first, MemoVersion(version=0, memo=memo.memo, summary=f"version {memo.version} of run {run_id}")


async def copy_tasks(
    store: Store, new: Store, refusals: Refusals, line: ProgressLine, *, as_drafts: bool
) -> tuple[int, int, dict[str, tuple[str, ...]]]:
    """Copy tasks, and the requests proposed so far, so that none of them is written again.

    Args:
        store: the run to start from. It may go on meanwhile.
        new: the empty store.
        refusals: why the new run cannot take a task; the first that says something counts.
        line: told the progress.
        as_drafts: every task is attacked again, its present version being the first one.

    Returns:
        How many tasks are servable, how many are drafts, and the ids left behind by reason.
    """
    # Drafts are read first: one that is admitted meanwhile is then in the pool too, and taken from there.
    waiting, entries = store.drafts(), store.servable()
    pooled = {task_id for task_id, _ in entries}
    servable, drafts = 0, 0
    left: dict[str, list[str]] = {reason: [] for reason in refusals}

    def taken(versions: Sequence[Task]) -> bool:
        for reason, why in refusals.items():
            if any(map(why, versions)):
                left[reason].append(versions[-1].task_id)
                return False
        return True

    for start in range(0, len(entries), BATCH):
        batch = [_evidence(store, *entry) for entry in entries[start : start + BATCH]]
        # Held-out tasks must not have been trained on in any version.
        fits = [(admission, versions) for admission, versions in batch if taken(versions)]
        if as_drafts:
            await new.add_drafts([_born(versions[-1]) for _, versions in fits], Origin(source="forked"))
            drafts += len(fits)
        else:
            await new.add_forked(fits)
            servable += len(fits)
        line.update(f"copied {servable + drafts}/{len(entries)} tasks")
    fitting = [_born(task) for task in waiting if task.task_id not in pooled and taken([task])]
    await new.add_drafts(fitting, Origin(source="forked"))
    for draw, rows in groupby(store.proposals(), key=lambda row: row[0]):
        await new.add_proposals(draw, [text for _, text in rows])
    return servable, drafts + len(fitting), {reason: tuple(ids) for reason, ids in left.items()}


def _evidence(store: Store, task_id: str, version: int) -> tuple[Admission, list[Task]]:
    admission = store.admission(task_id)
    assert admission is not None, f"task {task_id} is in the pool and its admission is not in the store"
    return admission, [task for task in store.versions(task_id) if task.version <= version]


def _born(task: Task) -> Task:
    return task.model_copy(update={"version": 1})


# -- words ----------------------------------------------------------------------------------------------


def _lines(new: Path, forked: ForkedFrom, config: RunConfig) -> Iterator[str]:
    after = f" after cycle {forked.cycle}" if forked.cycle is not None else ""
    yield f"{new} starts from run {forked.run_id} ({forked.path}){after}, arm {config.arm}"
    yield f"{forked.servable} tasks can be served at once, {forked.drafts} are drafts to be attacked"
    if forked.held_out:
        yield f"left behind: {_named(forked.held_out)}, asked in validation too"
    if forked.too_long:
        yield f"left behind: {_named(forked.too_long)}, longer than solver.max_prompt_tokens"
    if forked.guidance is not None:
        yield f"guidance {forked.guidance} and memo {forked.memo} there are version 0 here"
    target, have = config.generation.tasks, forked.servable + forked.drafts
    if have > target and forked.drafts:
        room = max(0, target - forked.servable)
        yield f"generation.tasks is {target}: room for {room} of the drafts; raise it with -s to attack them all"
    else:
        yield f"generation.tasks is {target}: {max(0, target - have)} more will be written"
    yield f"go on with: rri run {new}"


def _named(ids: Sequence[str]) -> str:
    """How many tasks, and the first of them by name."""
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"{len(ids)} task{'' if len(ids) == 1 else 's'} ({', '.join(ids[:NAMED])}{more})"
