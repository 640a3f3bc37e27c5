"""What a run amounts to: the closing summary of `rri run` and the screen of `rri show`."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from rri.cli.console import counted, cut, plain_table, readable_time, signed
from rri.cli.loop_summary import loop_lines, loop_of
from rri.cli.validation_summary import validation_of, validation_parts
from rri.config import EMBEDDED
from rri.evidence import Admission
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
    now = dict(store.servable())
    seconds: dict[str, float] = defaultdict(float)
    for _, stage, data in store.events("stage"):
        seconds[stage] += float(data["seconds"])
    calls = {role: asdict(totals) for role, totals in store.call_totals().items()}
    return {
        "run_id": manifest["run_id"],
        "directory": str(folder.path),
        "domain": config.domain.name,
        "arm": config.arm,
        "forked_from": manifest.get("forked_from"),
        "sources": store.origin_counts(),
        "outcomes": store.admission_counts(),
        "measured": measured,
        "delta_before": before,
        "delta_after": after,
        "tasks": [_task_row(a, now.get(a.task.task_id), store) for a in store.admissions()],
        "cycles": [{"cycle": c, "rollouts": n, "mean_score": mean} for c, n, mean in store.cycle_scores()],
        "grading": store.score_summary(),
        "validation": validation_of(store, folder, config),
        "protocol": "ours",
        "loop": loop_of(store, config),
        "calls": calls,
        "seconds": dict(seconds),
        "checkpoint": _result(folder),
        "failures": [message for _, message, _ in store.events("write_failed", 5)],
        "refused_passages": len(manifest["corpus"]["refused"]) if "corpus" in manifest else 0,
        "note": EMBEDDED_NOTE if config.endpoints[config.roles["judge"].endpoint].url == EMBEDDED else "",
    }


def _task_row(admission: Admission, version: int | None, store: Store) -> dict[str, Any]:
    """`version` is the one in the pool, which patches may have moved on; None for a refused task."""
    task = admission.task
    if version is not None and version != task.version:
        task = store.task(task.task_id, version) or task
    return {
        "task_id": task.task_id,
        "version": task.version,
        "outcome": admission.outcome,
        "why": admission.why,
        "criteria": len(task.rubric.criteria),
        "delta_before": admission.delta_before,
        "delta_after": admission.delta_after,
        "request": task.request,
    }


def _result(folder: RunDir) -> str | None:
    final = folder.checkpoints / "final"
    # Adapters alone have no config.json of a model.
    done = any((final / name).is_file() for name in ("config.json", "adapter_config.json"))
    return str(final) if done else None


def print_summary(summary: dict[str, Any], *, as_json: bool) -> None:
    """On stdout, as a screen or as one JSON object."""
    if as_json:
        sys.stdout.write(json.dumps(summary) + "\n")
        return
    console = Console()
    console.print(Rule(Text(f"run {summary['run_id']}: {summary['domain']}, arm {summary['arm']}")))
    console.print(_headline(summary))
    for line in loop_lines(summary["loop"]):
        console.print(Text(line))
    console.print(_tasks(summary, console.width))
    if summary["cycles"]:
        console.print(_cycles(summary))
    if summary["validation"]:
        for part in validation_parts(summary["validation"]):
            console.print(part)
    console.print(_calls(summary))
    console.print(_times(summary))
    if summary["note"]:
        console.print(Text(summary["note"], style="yellow"))


def _headline(summary: dict[str, Any]) -> Text:
    sources = {name: n for name, n in summary["sources"].items() if name != "written"}
    from_elsewhere = f" ({counted(sources)})" if sources else ""
    lines = [
        f"tasks: {counted(summary['outcomes'])}{from_elsewhere}",
        f"delta (exploit minus honest), mean of {summary['measured']} measured: "
        f"before {signed(summary['delta_before'])}, after {signed(summary['delta_after'])}",
        f"checkpoint: {summary['checkpoint'] or 'none yet'}",
    ]
    if summary["forked_from"]:
        lines.append(f"forked from run {summary['forked_from']['run_id']} ({summary['forked_from']['path']})")
    if summary["refused_passages"]:
        lines.append(f"{summary['refused_passages']} passages too long for the solver's prompt were left out")
    return Text("\n".join(lines))


def _tasks(summary: dict[str, Any], width: int, most: int = 12) -> Table:
    title = f"tasks (latest {most} of {len(summary['tasks'])})" if len(summary["tasks"]) > most else "tasks"
    notes = ("first probe", "request") if width >= WIDE else ("first probe",)
    left = max(10, (width - FIXED) // len(notes) - 3)
    table = plain_table(title, ("task", "outcome"), ("before", "after", "crit.", "ver."), notes)
    for row in summary["tasks"][-most:]:
        table.add_row(
            row["task_id"],
            row["outcome"],
            signed(row["delta_before"]),
            signed(row["delta_after"]),
            str(row["criteria"]),
            str(row["version"]),
            *(cut(row[key], left) for key in ("why", "request")[: len(notes)]),
        )
    return table


def _cycles(summary: dict[str, Any], most: int = 10) -> Table:
    table = plain_table("training (our judge protocol)", (), ("cycle", "rollouts", "mean score"))
    for row in summary["cycles"][-most:]:
        mean = "unscored" if row["mean_score"] is None else f"{row['mean_score']:.3f}"
        table.add_row(str(row["cycle"]), str(row["rollouts"]), mean)
    return table


def _calls(summary: dict[str, Any]) -> Table:
    keys = ("calls", "failed", "tokens_in", "cached", "tokens_out", "seconds")
    table = plain_table("model calls", ("role",), ("calls", "failed", "in", "cached", "out", "seconds", "money"))
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
