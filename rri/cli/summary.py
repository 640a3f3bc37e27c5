"""What a run amounts to: the closing summary of `rri run` and the screen of `rri show`."""

import json
import sys
from collections import defaultdict
from dataclasses import asdict
from typing import Any

from rich.console import Console, Group
from rich.panel import Panel
from rich.table import Table

from rri.cli.console import readable_time
from rri.config import EMBEDDED
from rri.rundir import RunDir
from rri.store import Store

__all__ = ["EMBEDDED_NOTE", "print_summary", "summary_of"]

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
        "calls": calls,
        "seconds": dict(seconds),
        "checkpoint": _result(folder),
        "failures": [message for _, message, _ in store.events("write_failed", 5)],
        "refused_passages": len(store.events("passage_refused")),
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
    parts: list[Any] = [_headline(summary), _tasks(summary)]
    if summary["cycles"]:
        parts.append(_cycles(summary))
    parts += [_calls(summary), _times(summary)]
    if summary["note"]:
        parts.append(f"[yellow]{summary['note']}[/]")
    Console().print(Panel(Group(*parts), title=f"run {summary['run_id']}: {summary['domain']}", expand=False))


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+.2f}"


def _headline(summary: dict[str, Any]) -> str:
    outcomes = ", ".join(f"{n} {name}" for name, n in sorted(summary["outcomes"].items())) or "none yet"
    lines = [
        f"tasks: {outcomes}",
        f"delta (exploit minus honest), mean of {summary['measured']} measured: "
        f"before {_signed(summary['delta_before'])}, after {_signed(summary['delta_after'])}",
        f"checkpoint: {summary['checkpoint'] or 'none yet'}",
    ]
    if summary["refused_passages"]:
        lines.append(f"{summary['refused_passages']} passages too long for the solver's prompt were left out")
    return "\n".join(lines)


def _tasks(summary: dict[str, Any], most: int = 12) -> Table:
    table = Table(title=f"tasks (latest {most})" if len(summary["tasks"]) > most else "tasks")
    for name in ("task", "version", "outcome", "criteria", "before", "after", "request"):
        table.add_column(name, overflow="ellipsis", no_wrap=True, max_width=48)
    for row in summary["tasks"][-most:]:
        request = " ".join(row["request"].split())
        table.add_row(
            row["task_id"],
            str(row["version"]),
            row["outcome"] + (f" ({row['why']})" if row["why"] else ""),
            str(row["criteria"]),
            _signed(row["delta_before"]),
            _signed(row["delta_after"]),
            request.replace("[", "\\["),
        )
    return table


def _cycles(summary: dict[str, Any], most: int = 10) -> Table:
    table = Table(title="training")
    for name in ("cycle", "rollouts", "mean score"):
        table.add_column(name, justify="right")
    for row in summary["cycles"][-most:]:
        mean = "unscored" if row["mean_score"] is None else f"{row['mean_score']:.3f}"
        table.add_row(str(row["cycle"]), str(row["rollouts"]), mean)
    return table


def _calls(summary: dict[str, Any]) -> Table:
    table = Table(title="model calls")
    for name in ("role", "calls", "failed", "tokens in", "cached", "tokens out", "seconds", "money"):
        table.add_column(name, justify="left" if name == "role" else "right")
    total: dict[str, float] = defaultdict(float)
    for role, row in [*summary["calls"].items(), ("total", total)]:
        table.add_row(
            role,
            *(f"{row[key]:,.0f}" for key in ("calls", "failed", "tokens_in", "cached", "tokens_out", "seconds")),
            f"{row['money']:.4f}",
            style="bold" if row is total else None,
        )
        if row is not total:
            for key, value in row.items():
                total[key] += value
    return table


def _times(summary: dict[str, Any]) -> str:
    parts = [f"{name} {readable_time(s)}" for name, s in summary["seconds"].items()]
    return "time per stage: " + (", ".join(parts) or "none yet")
