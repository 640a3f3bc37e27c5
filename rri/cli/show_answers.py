"""Answers beside each other, and under them what the judge found on every criterion."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from rri.evidence import Probe
from rri.types import Criterion, Task, Verdict

__all__ = ["answers_table", "print_probe", "probe_line", "verdicts_table"]

STYLES = {"met": "green", "unmet": "red", "unknown": "yellow"}


def answers_table(answers: Mapping[str, str]) -> Table:
    """Title -> answer, in columns of one width."""
    table = Table(show_lines=True, expand=True)
    for title in answers:
        table.add_column(title, ratio=1)
    table.add_row(*(Text(answer or "(none)") for answer in answers.values()))
    return table


def verdicts_table(
    criteria: Sequence[Criterion], verdicts: Mapping[str, Sequence[Verdict | None]], notes: Sequence[str] = ()
) -> Table:
    """A row a criterion: points, text, the verdict on each answer, and the reasons or `notes`.

    Args:
        criteria: in order.
        verdicts: whose answer -> one verdict a criterion; None where none was asked for.
        notes: what to say of each criterion instead of the judge's reasons.
    """
    table = Table(expand=True)
    table.add_column("points", justify="right")
    table.add_column("criterion", ratio=3)
    for name in verdicts:
        table.add_column(name)
    table.add_column("what became of it" if notes else f"reason ({' / '.join(verdicts)})", ratio=3)
    for number, criterion in enumerate(criteria):
        found = [of[number] for of in verdicts.values()]
        note = notes[number] if notes else " / ".join(map(_reason, found))
        cells: Iterator[RenderableType] = map(_word, found)
        table.add_row(f"{criterion.points:+g}", Text(criterion.text), *cells, Text(note))
    return table


def _word(verdict: Verdict | None) -> Text:
    return Text("-") if verdict is None else Text(verdict.outcome, style=STYLES[verdict.outcome])


def _reason(verdict: Verdict | None) -> str:
    if verdict is None:
        return "not asked"
    return next((v.reason or v.error for v in verdict.votes if v.outcome == verdict.outcome), "no majority")


def probe_line(probe: Probe) -> Text:
    """The result of a probe in one line."""
    if probe.delta is None or probe.exploit_grade is None or probe.honest_grade is None:
        return Text(f"{probe.status}: {probe.why}", style="yellow")
    line = Text(
        f"exploit {probe.exploit_grade.score:.2f}, honest {probe.honest_grade.score:.2f}, delta {probe.delta:+.2f}: "
    )
    verdict, style = ("the rubric holds", "green") if probe.passed else (", ".join(probe.reasons), "red")
    return line.append(verdict, style=style)


def print_probe(console: Console, task: Task, probe: Probe) -> None:
    """One attack on one version: both answers, every verdict, the result."""
    console.print(answers_table({"exploit (games the rubric)": probe.exploit, "honest answer (blind)": probe.honest}))
    if probe.exploit_grade is not None and probe.honest_grade is not None:
        verdicts = {"exploit": probe.exploit_grade.verdicts, "honest": probe.honest_grade.verdicts}
        console.print(verdicts_table(task.rubric.criteria, verdicts))
    console.print(probe_line(probe))
