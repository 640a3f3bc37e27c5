"""One cell of the comparison: a whole run of the system in the world, and what came of it.

    python -m eval.world.running DIR NAME [--scale JSON]

The run is `rri run` as a user starts it, with its service and its trainer; only the models are the world's. Started
again after a kill it goes on where it was: the run resumes by itself, and what is measured is measured once.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from eval.world.cells import PRESETS, Cell, parse_cell
from eval.world.config import world_config, write_corpus
from eval.world.confirming import Confirmed, confirm
from eval.world.facts import World
from eval.world.heldout import held_out_requests, read_answers, sample_answers, summarize, write_answers
from eval.world.measuring import exploit_modes, rubrics_of, served_tasks, training_curve, training_end
from eval.world.pretraining import base_model
from eval.world.results import ANSWERS, CELL, CellResult, read_result
from eval.world.scale import Scale
from eval.world.server import WorldServer
from rri.config import parse_config
from rri.config.merging import merge
from rri.errors import RriError, RunDirError, TrainerFailed
from rri.lifetime import leashed
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["CELLS", "run_cell"]

CELLS = "cells"
"""Folder of the cells within the comparison's."""

CONFIRMING = "confirming"
"""Series of draws of the models that confirm."""

_LOG, _STARTS = "run.log", "starts"

Progress = Callable[[str], None]


@dataclass
class _Clock:
    """Wall time of the stages of this start."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - began, 1)


def run_cell(
    directory: Path, cell: Cell, scale: Scale | None = None, progress: Progress = lambda message: None
) -> CellResult:
    """The cell's result, from its folder where it is finished, else by running what is left of it.

    Args:
        directory: of the comparison; the cell's folder is `cells/NAME` in it.
        cell: what is run.
        scale: sizes; the proving ground's by default.
        progress: is told how far it is.

    Raises:
        RriError: the base model, the run or a measurement failed. The folder keeps what is done.
    """
    scale, folder = scale or Scale(), directory / CELLS / cell.name
    if (found := read_result(folder)) is not None:
        progress("finished before")
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunDirError(f"cannot make {folder}: {error.strerror}", "Choose another folder") from None
    clock, world = _Clock(), scale.world(cell.seed)
    with clock.stage("base model"):
        base = base_model(world, settings=scale.pretraining, progress=progress)
    with clock.stage("run"):
        _run(folder, cell, scale, world, base, progress)
    with clock.stage("held-out answers"):
        _answer_held_out(folder, scale, world, progress)
    with clock.stage("confirming probes"):
        confirmed = _confirm(folder, cell, scale, world, progress)
    result = _result(folder, cell, scale, world, confirmed, clock)
    result.write(folder)
    return result


# -- the run ------------------------------------------------------------------------------------------


def _run(folder: Path, cell: Cell, scale: Scale, world: World, base: Path, progress: Progress) -> None:
    """`rri run` to its end.

    Raises:
        TrainerFailed: it ended with another code than 0.
    """
    corpus = write_corpus(world, folder / "passages.jsonl")
    start = _count_start(folder)
    with WorldServer(world, cell.constants, draws=start) as server:
        sections = {
            "generation": {"tasks": scale.tasks},
            "solver": {"cycles": scale.cycles, "learning_rate": scale.learning_rate},
        }
        config = world_config(world, server.url, corpus, base, merge(sections, cell.sections))
        path = folder / "config.yaml"
        path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
        command = [sys.executable, "-m", "rri.cli.main", "run", str(folder / "run")]
        command += ["--config", str(path), "--config", PRESETS[cell.arm]]
        code = _watched(command, folder / _LOG, progress)
    if code:
        raise TrainerFailed(f"the run of cell {cell.name} ended with exit code {code}", f"Look at {folder / _LOG}")


def _watched(command: list[str], path: Path, progress: Progress) -> int:
    """Run a command to its end; what it says goes to the log at `path`, its progress on stderr also to `progress`."""
    with path.open("a", encoding="utf-8") as log:
        process = subprocess.Popen(leashed(command), stdout=log, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        for line in process.stderr:
            log.write(line)
            log.flush()
            progress(line)
        return process.wait()


def _count_start(folder: Path) -> str:
    """Name of the draws of this start: models that begin anew must not repeat what an earlier start was told."""
    with (folder / _STARTS).open("a+", encoding="utf-8") as file:
        file.seek(0)
        number = len(file.readlines())
        file.write("start\n")
    return f"start {number}" if number else ""


# -- what is measured ---------------------------------------------------------------------------------


def _answer_held_out(folder: Path, scale: Scale, world: World, progress: Progress) -> None:
    if (folder / ANSWERS).exists():
        return
    requests = held_out_requests(world, scale.requests)
    final = folder / "run" / "checkpoints" / "final"
    write_answers(sample_answers(final, world, requests, scale.answers_each, progress=progress), folder / ANSWERS)


def _confirm(folder: Path, cell: Cell, scale: Scale, world: World, progress: Progress) -> Confirmed:
    """Attacks as the fair world makes them in full: with three votes, the strict note and fair models in every cell, so
    that cells can be compared.
    """
    saved = RunDir.existing(folder / "run").config()
    store = Store(folder / "run")
    try:
        with WorldServer(world, draws=CONFIRMING) as server:
            sections = {"solver": {"cycles": scale.cycles}}
            data = world_config(world, server.url, folder / "passages.jsonl", saved.solver.base_model, sections)
            config = parse_config(data, where=f"the config that confirms cell {cell.name}")
            return confirm(
                store,
                config,
                probes=scale.probes,
                stretches=scale.stretches,
                stretch_probes=scale.stretch_probes,
                progress=progress,
            )
    finally:
        store.close()


def _result(folder: Path, cell: Cell, scale: Scale, world: World, confirmed: Confirmed, clock: _Clock) -> CellResult:
    answers = read_answers(folder / ANSWERS)
    held_out = summarize(answers)
    store = Store(folder / "run")
    try:
        curve = training_curve(store, world, scale.cycles)
        reward, quality = training_end(curve, scale.last)
        first = max(0, scale.cycles - scale.last)
        adopted = confirmed.adopted or (None, None)
        return CellResult(
            name=cell.name,
            arm=cell.arm,
            seed=cell.seed,
            change=cell.change,
            constants=cell.constants.digest,
            train_reward=reward,
            train_quality=quality,
            true_quality=held_out.quality,
            standard_error=held_out.standard_error,
            answers=held_out.answers,
            kinds=dict(held_out.kinds),
            before=confirmed.before,
            after=confirmed.after,
            adopted_before=adopted[0],
            adopted_after=adopted[1],
            curve=curve,
            exploitable=confirmed.exploitable,
            modes=exploit_modes(store),
            outcomes=store.admission_counts(),
            rubrics=rubrics_of(world, served_tasks(store, first, scale.cycles - 1)),
            calls=sum(totals.calls for totals in store.call_totals().values()),
            seconds=clock.seconds,
        )
    finally:
        store.close()


# -- command ------------------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Run one cell, or what is left of it; returns the exit code."""
    parser = argparse.ArgumentParser(prog="eval.world.running", description="One cell of the comparison.")
    parser.add_argument("directory", type=Path, metavar="DIR", help="of the comparison")
    parser.add_argument("cell", metavar="NAME", help="such as rri-0 or rri-0-no-reattack")
    parser.add_argument("--scale", default="{}", metavar="JSON", help="sizes that differ from the proving ground's")
    options = parser.parse_args(argv)
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    try:
        result = run_cell(options.directory, parse_cell(options.cell), Scale.read(options.scale, "--scale"), _say)
    except RriError as error:
        _say(f"error: {error}")
        return error.exit_code
    where = options.directory / CELLS / result.name / CELL
    _say(f"{where}: reward {result.train_reward:.3f}, true quality {result.true_quality:.3f}")
    return 0


def _say(message: str) -> None:
    sys.stderr.write(f"{' '.join(message.split())}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
