"""`rri show`: the summary of a run, or one part of it in full. Reads beside a running service."""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_jsonable_python
from rich.console import Console

from eval.repair_report import PAPER, repair_report
from rri.cli.show_cases import case_lines, print_cases
from rri.cli.show_life import print_life
from rri.cli.show_memo import memo_history, print_memos
from rri.cli.show_repair import print_repair
from rri.cli.show_rounds import print_round, print_rounds, round_of, worked_cycles
from rri.cli.show_task import find_task, life_of
from rri.cli.summary import print_summary, summary_of
from rri.config import RunConfig
from rri.errors import ConfigError
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["Asked", "show_command"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to show: one of these, or with none of them the summary."""

    task: str = ""
    cases: bool = False
    rounds: bool = False
    round: int | None = None
    memo: bool = False
    repair: bool = False

    def names(self) -> list[str]:
        """The options that were given."""
        given = {
            "--task": self.task,
            "--cases": self.cases,
            "--rounds": self.rounds,
            "--round": self.round is not None,
            "--memo": self.memo,
            "--repair": self.repair,
        }
        return [name for name, value in given.items() if value]


Printed = tuple[Any, Callable[[Console], None]]
"""A part of the run as data, and how it is printed."""


def show_command(directory: Path, asked: Asked, *, as_json: bool) -> int:
    """Print a run, going on or ended; exit code 0.

    Raises:
        ConfigError: more than one part is asked for.
        InputError: there is no such task or round.
    """
    if len(names := asked.names()) > 1:
        raise ConfigError(f"{' and '.join(names)} are given together", "Ask for one of them at a time")
    folder = RunDir.existing(directory)
    config = folder.config()
    store = Store(directory)
    try:
        if not names:
            print_summary(summary_of(store, folder), as_json=as_json)
            return 0
        data, show = _part(store, folder, config, asked)
        if as_json:
            sys.stdout.write(json.dumps(to_jsonable_python(data)) + "\n")
        else:
            show(Console())
    finally:
        store.close()
    return 0


def _part(store: Store, folder: RunDir, config: RunConfig, asked: Asked) -> Printed:
    if asked.task:
        life = life_of(store, config, find_task(store.task_ids(), asked.task))
        return life, lambda console: print_life(console, life, folder.manifest().get("forked_from"))
    if asked.round is not None:
        shown = round_of(store, folder, config, asked.round)
        return shown, lambda console: print_round(console, shown)
    if asked.rounds:
        cycles = worked_cycles(store)
        return cycles, lambda console: print_rounds(console, cycles, config)
    if asked.memo:
        history = memo_history(store, config)
        return history, lambda console: print_memos(console, history)
    if asked.cases:
        lines = case_lines(store)
        ranked = store.loop_figures()["rankings"]
        return lines, lambda console: print_cases(console, lines, config, ranked)
    report = repair_report(store, config.admission.margin)
    return {"run": report, "paper": PAPER}, lambda console: print_repair(console, report, config)
