"""`rri show DIR --repair`: what repair has brought, beside the paper's figures (METHOD 7, repair report)."""

from dataclasses import fields

from rich.console import Console
from rich.text import Text

from eval.repair_report import PAPER, Measure, RepairReport
from rri.cli.console import plain_table
from rri.config import RunConfig

__all__ = ["print_repair"]

WORDS = {
    "positive_share": ("positive among accepted criteria", "criteria"),
    "gap_removed": ("gap removed by a criterion", "criteria"),
    "margin": ("gap of a case sent to repair", "cases"),
    "new_exploit": ("beaten again after the first patch", "attacks"),
    "delta_before": ("delta before the rewrites", "tasks"),
    "delta_after": ("delta after", "tasks"),
    "honest_leads_before": ("honest answer leads before", "tasks"),
    "honest_leads_after": ("honest answer leads after", "tasks"),
    "reached": ("delta reaches the margin after", "tasks"),
    "reward_before": ("mean reward before a patch", "patches"),
    "reward_after": ("mean reward after", "patches"),
}
SHARES = ("positive_share", "new_exploit", "honest_leads_before", "honest_leads_after", "reached")


def print_repair(console: Console, report: RepairReport, config: RunConfig) -> None:
    """A row a figure: what was found, over how many, and the paper's."""
    table = plain_table("repair report", ("figure",), ("this run", "over", "paper (9B)"))
    for field in fields(RepairReport):
        measure: Measure = getattr(report, field.name)
        words, of = WORDS[field.name]
        found = "-" if measure.value is None else _shown(field.name, measure.value)
        table.add_row(words, found, f"{measure.n} {of}", _shown(field.name, PAPER[field.name]))
    console.print(table)
    for line in _missing(report, config):
        console.print(Text(line, style="dim"))


def _shown(name: str, value: float) -> str:
    if name in SHARES:
        # One digit more where a whole percent would hide that it is not 0.
        return f"{value:.1%}" if 0 < value < 0.01 else f"{value:.0%}"
    return f"{value:+.2f}" if name.startswith("delta") else f"{value:.2f}"


def _missing(report: RepairReport, config: RunConfig) -> list[str]:
    """Why a part has no figures."""
    missing = []
    if not report.delta_before.n:
        why = "no adopted rewrite of a beaten task yet" if config.admission.enabled else "admission.enabled is false"
        missing.append(f"nothing to say of admission: {why}")
    if not report.positive_share.n:
        why = "no criterion was accepted yet" if config.patches.enabled else "patches.enabled is false"
        missing.append(f"nothing to say of patches: {why}")
    elif not report.reward_before.n:
        missing.append("nothing to say of rewards: no patched task was graded under both versions yet")
    return missing
