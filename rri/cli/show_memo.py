"""`rri show DIR --memo`: every exploit memo, what it was worth, and what was decided on it (METHOD 7)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from rri.cases import MemoVersion
from rri.cli.console import plain_table, signed
from rri.cli.loop_summary import memo_scores
from rri.cli.show_diff import coloured, diff_units, text_units
from rri.config import RunConfig
from rri.memo_score import MemoScore
from rri.store import Store

__all__ = ["MemoHistory", "memo_history", "print_memos"]


@dataclass(frozen=True, slots=True)
class MemoHistory:
    """All versions, oldest first, each with its figures. `decisions`: cycle, action and why of each memo round."""

    versions: tuple[MemoVersion, ...]
    scores: tuple[MemoScore, ...]
    decisions: tuple[dict[str, Any], ...]
    note: str = ""


def memo_history(store: Store, config: RunConfig) -> MemoHistory:
    """What the store holds of the memos."""
    versions, scores = store.memo_versions(), memo_scores(store, config)
    decisions = []
    for row in store.rounds("evolution"):
        if decision := row.data.get("memo_decision"):
            decisions.append({"cycle": row.cycle, "put": row.data["memo"], **decision})
        elif error := row.data.get("memo_error"):
            decisions.append({"cycle": row.cycle, "put": None, "action": "failed", "why": error})
    note = ""
    if not config.memo.enabled:
        note = "memo.enabled is false in this run: the memo never changes"
    elif not versions:
        note = "no memo yet: the run was never started"
    elif not decisions:
        every = config.evolution.every_cycles
        note = f"no memo round yet: one comes with each evolution round, every {every} cycles"
    return MemoHistory(
        tuple(versions),
        tuple(scores.get(v.version, MemoScore(version=v.version, n=0)) for v in versions),
        tuple(decisions),
        note,
    )


def print_memos(console: Console, history: MemoHistory) -> None:
    """Figures, decisions, and each text as its change from the one before."""
    if history.versions:
        table = plain_table(
            "exploit memos (g: lower is better, target 0)",
            (),
            ("version", "since cycle", "n", "mean delta", "honest mean", "g"),
            ("came as",),
        )
        for version, score in zip(history.versions, history.scores, strict=True):
            honest = "-" if score.honest_mean is None else f"{score.honest_mean:.2f}"
            g = "-" if score.score is None else f"{score.score:+.3f}"
            since = str(version.cycle + 1)
            table.add_row(
                str(version.version), since, str(score.n), signed(score.delta_mean), honest, g, _came(version)
            )
        console.print(table)
    for decision in history.decisions:
        console.print(_decision(decision))
    if history.note:
        console.print(Text(history.note, style="dim"))
    before = ""
    for version in history.versions:
        summary = f": {version.summary}" if version.summary else ""
        console.print(Text(f"\nmemo {version.version}{summary}", style="bold"))
        lines = diff_units(text_units(before), text_units(version.memo))
        console.print(coloured(lines) if lines else Text("(empty)", style="dim"))
        before = version.memo


def _came(version: MemoVersion) -> str:
    if version.decision == "rolled_back":
        return f"rolled back to {version.of}"
    return {"initial": "the first", "new": "new"}[version.decision]


def _decision(decision: Mapping[str, Any]) -> Text:
    put = f" -> memo {decision['put']}" if decision["put"] is not None else ""
    flag = " (it restricts honest answers)" if decision.get("restricting") else ""
    return Text(f"after cycle {decision['cycle']}: {decision['action']}{put}{flag}, {decision['why']}")
