"""Validation rounds on the screen of `rri show` (METHOD 6)."""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from rri.cli.console import plain_table
from rri.config import RunConfig
from rri.rundir import RunDir
from rri.service.validation import validation_history
from rri.store import Store

__all__ = ["validation_of", "validation_parts"]

SHOWN = 10
"""Latest rounds in the table."""


def validation_of(store: Store, folder: RunDir, config: RunConfig) -> dict[str, Any] | None:
    """`validation_history` of a run, JSON-able; None where it has no validation file."""
    held_out = folder.manifest().get("validation")
    return validation_history(store, config.validation, int(held_out["tasks"])) if held_out else None


def validation_parts(validation: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The latest rounds as a table, and the alarm, also one that a later round has ended."""
    history = validation["history"]
    tasks = f"{validation['tasks']} task{'' if validation['tasks'] == 1 else 's'}"
    if not history:
        yield Text(f"validation on {tasks}: no round yet")
        return
    latest = f" (latest {SHOWN} of {len(history)} rounds)" if len(history) > SHOWN else ""
    table = plain_table(f"validation on {tasks}{latest}", (), ("cycle", "rollouts", "mean score", "training", "alarm"))
    for row in history[-SHOWN:]:
        alarm = "yes" if row["alarm"] else "-"
        table.add_row(str(row["cycle"]), str(row["rollouts"]), _mean(row["score"]), _mean(row["train"]), alarm)
    yield table
    if fired := [row for row in history if row["alarm"]]:
        now = "ALARM" if validation["alarm"] else f"alarm after cycle {fired[-1]['cycle']}, ended since"
        yield Text(f"{now}: {fired[-1]['alarm']}", style="bold red")


def _mean(score: float | None) -> str:
    return "unscored" if score is None else f"{score:.3f}"
