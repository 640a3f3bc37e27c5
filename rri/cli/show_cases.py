"""`rri show DIR --cases`: every exploit case in a line (METHOD 7)."""

from dataclasses import dataclass

from rich.console import Console
from rich.text import Text

from rri.cli.console import cut, plain_table, signed
from rri.cli.show_task import why_no_case
from rri.config import RunConfig
from rri.store import CaseRow, Store
from rri.vocabulary import ExploitLabel

__all__ = ["CaseLine", "case_lines", "print_cases"]

WIDE = 120
"""Columns from which label and reason are shown too."""
FIXED = 110
"""Columns that a case's figures take, label included."""


@dataclass(frozen=True, slots=True)
class CaseLine:
    """A case and what became of it. `outcome` is waiting before its repair, and not_chosen where it gets none.

    Leads are raw score of the better answer - raw score of the exploit, before and after the patch.
    """

    case: CaseRow
    outcome: str
    accepted: int = 0
    label: ExploitLabel | None = None
    lead_before: float | None = None
    lead_after: float | None = None
    why: str = ""


def case_lines(store: Store) -> list[CaseLine]:
    """All cases in the order in which they were found."""
    patches = {patch.case: patch for patch in store.all_patches()}
    lines = []
    for case in store.case_rows():
        patch = patches.get(case.number)
        if patch is None:
            lines.append(CaseLine(case, "waiting" if case.chosen else "not_chosen"))
            continue
        label = patch.rounds[0].label if patch.rounds else None
        leads = (patch.lead_before, patch.lead_after)
        lines.append(CaseLine(case, patch.outcome, len(patch.accepted), label, *leads, patch.why))
    return lines


def print_cases(console: Console, lines: list[CaseLine], config: RunConfig, ranked: dict[str, int]) -> None:
    """A row a case, or why there is none.

    Args:
        console: where to.
        lines: of the run.
        config: the run's.
        ranked: outcome -> groups that came before the referee.
    """
    if not lines:
        console.print(Text(why_no_case(config, ranked)))
        return
    wide = console.width >= WIDE
    texts = ("task", "outcome", "label", "why") if wide else ("task", "outcome")
    figures = ("case", "cycle", "ver.", "gap", "acc.", "before", "after")
    table = plain_table("exploit cases (before and after: lead of the better answer)", (), figures, texts)
    for line in lines:
        case = line.case
        notes = (line.label or "-", cut(line.why, max(10, console.width - FIXED))) if wide else ()
        table.add_row(
            str(case.number),
            str(case.cycle),
            str(case.version),
            f"{case.gap:.2f}",
            str(line.accepted),
            signed(line.lead_before),
            signed(line.lead_after),
            case.task_id,
            line.outcome,
            *notes,
        )
    console.print(table)
    console.print(Text("both answers and every verdict of a case: rri show DIR --task TASK"))
