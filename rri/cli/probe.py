"""`rri probe`: one rubric attacked, both answers side by side."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from programs.roles import Roles
from rri.cli.console import progress_line
from rri.config import Sources, load_config
from rri.errors import ModelError, TaskFileError
from rri.evidence import Probe
from rri.lm import open_gateway
from rri.taskfile import read_tasks
from rri.types import Task, Verdict

__all__ = ["probe_command"]

MARKS = {"met": "[green]met[/]", "unmet": "[red]unmet[/]", "unknown": "[yellow]unknown[/]"}


def probe_command(path: Path, source: Sources, overrides: Mapping[str, Any], *, as_json: bool) -> int:
    """Probe the task of a file; the exit code is 0 when the rubric holds, 10 when not, 11 when that was not measured.

    Raises:
        ModelError: a model gave no usable reply.
    """
    tasks = list(read_tasks(path))
    if len(tasks) != 1:
        raise TaskFileError(f"{path} holds {len(tasks)} tasks", "Give one; `rri generate` attacks many")
    task = tasks[0]
    config = load_config(source, overrides)
    with progress_line(quiet=as_json) as line:
        gateway = open_gateway(config, progress=line.say)
        try:
            line.update("attacking the rubric")
            probe = gateway.loop.run(Roles.bind(config, gateway).prober().probe(task, "probe-0"))
        finally:
            gateway.close_sync()
    if as_json:
        sys.stdout.write(probe.model_dump_json() + "\n")
    else:
        show_probe(Console(), task, probe)
    if probe.failed:
        raise ModelError(f"not measured: {probe.why}")
    return 0 if probe.passed else 10 if probe.status == "measured" else 11


def show_probe(console: Console, task: Task, probe: Probe) -> None:
    """Answers side by side, verdicts under them, and the result in one line."""
    answers = Table(show_lines=True, expand=True)
    answers.add_column("exploit (games the rubric)", ratio=1)
    answers.add_column("honest answer (blind)", ratio=1)
    answers.add_row(Text(probe.exploit or "(none)"), Text(probe.honest or "(none)"))
    console.print(answers)
    if probe.exploit_grade and probe.honest_grade:
        console.print(_verdicts(task, probe.exploit_grade.verdicts, probe.honest_grade.verdicts))
    if probe.delta is None:
        console.print(f"[yellow]{probe.status}[/]: {probe.why}")
        return
    assert probe.exploit_grade and probe.honest_grade
    verdict = "[green]the rubric holds[/]" if probe.passed else f"[red]{', '.join(probe.reasons)}[/]"
    console.print(
        f"exploit {probe.exploit_grade.score:.2f}, honest {probe.honest_grade.score:.2f}, "
        f"delta {probe.delta:+.2f}: {verdict}"
    )


def _verdicts(task: Task, exploit: tuple[Verdict, ...], honest: tuple[Verdict, ...]) -> Table:
    table = Table(expand=True)
    table.add_column("points", justify="right")
    table.add_column("criterion", ratio=3)
    table.add_column("exploit")
    table.add_column("honest")
    table.add_column("reason (exploit / honest)", ratio=3)
    for criterion, a, b in zip(task.rubric.criteria, exploit, honest, strict=True):
        reasons = f"{_reason(a)} / {_reason(b)}"
        table.add_row(f"{criterion.points:+g}", Text(criterion.text), MARKS[a.outcome], MARKS[b.outcome], Text(reasons))
    return table


def _reason(verdict: Verdict) -> str:
    return next((v.reason or v.error for v in verdict.votes if v.outcome == verdict.outcome), "no majority")
