"""What a run amounts to: the closing summary of `rri run` and the screen of `rri show`."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rri.cli.console import readable_time
from rri.config import EMBEDDED
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["EMBEDDED_NOTE", "print_summary", "summary_of"]

WIDE = 120
"""Columns from which the requests are shown too."""
FIXED = 66
"""Columns that a task's figures take."""

EMBEDDED_NOTE = (
    "The embedded model judges no better than chance: these figures show that the plumbing works, not quality. "
    "Point `endpoints` at a real model for results."
)


def summary_of(store: Store, folder: RunDir) -> dict[str, Any]:
    """Everything that the summary shows, as JSON-able data."""
    config, manifest = folder.config(), folder.manifest()
    before, after, measured = store.mean_deltas()
    seconds: dict[str, float] = defaultdict(float)
    for _, stage, data in store.events("stage"):
        seconds[stage] += float(data["seconds"])
    calls = {role: asdict(totals) for role, totals in store.call_totals().items()}
    return {
        "run_id": manifest["run_id"],
        "directory": str(folder.path),
        "domain": config.domain.name,
        "outcomes": store.admission_counts(),
        "measured": measured,
        "delta_before": before,
        "delta_after": after,
        "tasks": [_task_row(a) for a in store.admissions()],
        "cycles": [{"cycle": c, "rollouts": n, "mean_score": mean} for c, n, mean in store.cycle_scores()],
        "grading": store.score_summary(),
        "protocol": "ours",
        "calls": calls,
        "seconds": dict(seconds),
        "checkpoint": _result(folder),
        "failures": [message for _, message, _ in store.events("write_failed", 5)],
        "refused_passages": len(manifest["corpus"]["refused"]) if "corpus" in manifest else 0,
        "note": EMBEDDED_NOTE if config.endpoints[config.roles["judge"].endpoint].url == EMBEDDED else "",
    }


def _task_row(admission: Any) -> dict[str, Any]:
    return {
        "task_id": admission.task.task_id,
        "version": admission.task.version,
        "outcome": admission.outcome,
        "why": admission.why,
        "criteria": len(admission.task.rubric.criteria),
        "delta_before": admission.delta_before,
        "delta_after": admission.delta_after,
        "request": admission.task.request,
    }


def _result(folder: RunDir) -> str | None:
    final = folder.checkpoints / "final"
    return str(final) if (final / "config.json").is_file() else None


def print_summary(summary: dict[str, Any], *, as_json: bool) -> None:
    """On stdout, as a screen or as one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
        return
    console = Console()
    console.print(Rule(f"run {summary['run_id']}: {summary['domain']}"))
    console.print(_headline(summary))
    console.print(_tasks(summary, console.width))
    if summary["cycles"]:
        console.print(_cycles(summary))
    console.print(_calls(summary))
    console.print(_times(summary))
    if summary["note"]:
        console.print(Text(summary["note"], style="yellow"))


def _table(title: str, texts: tuple[str, ...], figures: tuple[str, ...], notes: tuple[str, ...] = ()) -> Table:
    """A plain table whose columns keep their width; whoever fills in notes cuts them to what is left."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False)
    for name in texts:
        table.add_column(name, no_wrap=True)
    for name in figures:
        table.add_column(name, no_wrap=True, justify="right")
    for name in notes:
        table.add_column(name, no_wrap=True)
    return table


def _cut(text: str, width: int) -> Text:
    """`text` on one line of at most `width` cells."""
    line = Text(" ".join(text.split()))
    line.truncate(width, overflow="ellipsis")
    return line


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _headline(summary: dict[str, Any]) -> Text:
    outcomes = ", ".join(f"{n} {name}" for name, n in sorted(summary["outcomes"].items())) or "none yet"
    lines = [
        f"tasks: {outcomes}",
        f"delta (exploit minus honest), mean of {summary['measured']} measured: "
        f"before {_signed(summary['delta_before'])}, after {_signed(summary['delta_after'])}",
        f"checkpoint: {summary['checkpoint'] or 'none yet'}",
    ]
    if summary["refused_passages"]:
        lines.append(f"{summary['refused_passages']} passages too long for the solver's prompt were left out")
    return Text("\n".join(lines))


def _tasks(summary: dict[str, Any], width: int, most: int = 12) -> Table:
    title = f"tasks (latest {most} of {len(summary['tasks'])})" if len(summary["tasks"]) > most else "tasks"
    notes = ("first probe", "request") if width >= WIDE else ("first probe",)
    left = max(10, (width - FIXED) // len(notes) - 3)
    table = _table(title, ("task", "outcome"), ("before", "after", "crit.", "ver."), notes)
    for row in summary["tasks"][-most:]:
        table.add_row(
            row["task_id"],
            row["outcome"],
            _signed(row["delta_before"]),
            _signed(row["delta_after"]),
            str(row["criteria"]),
            str(row["version"]),
            *(_cut(row[key], left) for key in ("why", "request")[: len(notes)]),
        )
    return table


def _cycles(summary: dict[str, Any], most: int = 10) -> Table:
    table = _table("training (our judge protocol)", (), ("cycle", "rollouts", "mean score"))
    for row in summary["cycles"][-most:]:
        mean = "unscored" if row["mean_score"] is None else f"{row['mean_score']:.3f}"
        table.add_row(str(row["cycle"]), str(row["rollouts"]), mean)
    return table


def _calls(summary: dict[str, Any]) -> Table:
    keys = ("calls", "failed", "tokens_in", "cached", "tokens_out", "seconds")
    table = _table("model calls", ("role",), ("calls", "failed", "in", "cached", "out", "seconds", "money"))
    total: dict[str, float] = defaultdict(float)
    for role, row in summary["calls"].items():
        for key, value in row.items():
            total[key] += value
        table.add_row(role, *(f"{row[key]:,.0f}" for key in keys), f"{row['money']:.4f}")
    table.add_row("all", *(f"{total[key]:,.0f}" for key in keys), f"{total['money']:.4f}", style="bold")
    return table


def _times(summary: dict[str, Any]) -> str:
    parts = [f"{name} {readable_time(s)}" for name, s in summary["seconds"].items()]
    return "time per stage: " + (", ".join(parts) or "none yet")
