"""How the life of a task is printed."""

from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise
from typing import Any

from rich.console import Console
from rich.rule import Rule
from rich.text import Text

from rri.cases import Answered, PatchRound, Ranking
from rri.cli.console import plain_table, signed
from rri.cli.show_answers import answers_table, print_probe, verdicts_table
from rri.cli.show_diff import coloured, conversation_units, diff_units, rubric_units
from rri.cli.show_task import CaseLife, TaskLife
from rri.evidence import Rewrite
from rri.types import Criterion, Rubric, Task

__all__ = ["print_life"]


def print_life(console: Console, life: TaskLife, forked_from: Mapping[str, Any] | None = None) -> None:
    """Origin, versions, admission, cases with their patches, serving, scores, evictions.

    Args:
        console: where to.
        life: of one task.
        forked_from: the run that this one was forked from, as its manifest names it.
    """
    pool = f"version {life.now} is in the pool" if life.now is not None else "not in the pool"
    console.print(Rule(Text(f"task {life.task_id}: {pool}")))
    console.print(Text("\n".join(_origin(life, forked_from))))
    _heading(console, "versions")
    _print_versions(console, life)
    _heading(console, "admission")
    _print_admission(console, life)
    _heading(console, "exploit cases")
    for case in life.cases:
        _print_case(console, case)
    _note(console, life, "cases")
    _heading(console, "in training")
    for line in _served(life):
        console.print(Text(line))
    if life.scores:
        console.print(_scores(life))
    for name in ("served", "scores"):
        _note(console, life, name)
    for row in life.evictions:
        back = "" if row.version == life.now else "; a later version has come back"
        figures = f"mean {row.mean:.2f}, variance {row.variance:.4f} over {row.rollouts} rollouts"
        console.print(Text(f"version {row.version} left the draw: {figures}{back}"))
    _note(console, life, "evictions")


def _heading(console: Console, title: str) -> None:
    console.print(Text(f"\n{title}", style="bold"))


def _note(console: Console, life: TaskLife, name: str) -> None:
    if name in life.notes:
        console.print(Text(life.notes[name], style="dim"))


def _origin(life: TaskLife, forked_from: Mapping[str, Any] | None) -> Iterator[str]:
    origin, born = life.origin, life.versions[0]
    if origin is None:
        yield "how it came to be was not kept"
    elif origin.source == "written":
        yield f"written under guidance {origin.guidance} and memo {origin.memo}"
        positives = sum(c.points > 0 for c in born.rubric.criteria)
        negatives = len(born.rubric.criteria) - positives
        wanted = "a negative" if origin.asked_negative else "no negative"
        yield f"asked for {origin.asked_positives} positives and {wanted}; came with {positives} and {negatives}"
    elif origin.source == "forked" and forked_from:
        yield f"forked from run {forked_from['run_id']} ({forked_from['path']})"
    else:
        yield origin.source
    labels = born.labels
    said = {"use case": labels.use_case, "specialty": labels.specialty, "difficulty": labels.difficulty}
    parts = [f"{name} {value}" for name, value in said.items() if value] + (["red-team"] if labels.red_team else [])
    if parts:
        yield ", ".join(parts)
    if born.references:
        yield f"grounded on {', '.join(r.id for r in born.references)}"


# -- versions -----------------------------------------------------------------------------------------


def _print_versions(console: Console, life: TaskLife) -> None:
    first = life.versions[0]
    console.print(Text(f"version {first.version}, {_came(life, first)}", style="underline"))
    _print_change(console, None, first)
    for before, after in pairwise(life.versions):
        console.print(Text(f"version {after.version}, {_came(life, after)}", style="underline"))
        _print_change(console, before, after)


def _came(life: TaskLife, task: Task) -> str:
    """Where a version came from."""
    if life.admission is not None:
        for rewrite in life.admission.rewrites:
            if rewrite.task is not None and rewrite.task.digest == task.digest:
                return f"rewritten in admission, round {rewrite.round}"
    for case in life.cases:
        if case.patch is not None and case.patch.outcome == "patched" and case.patch.task.version == task.version:
            return f"patched on case {case.number} of cycle {case.case.cycle}"
    if task is not life.versions[0]:
        return "patched in the run before"
    source = life.origin.source if life.origin is not None else "written"
    return "as it was written" if source == "forked" else f"as it was {source}"


def _print_change(console: Console, before: Task | None, after: Task) -> None:
    """Conversation and rubric; as a diff where there is a version before."""
    for units in (conversation_units, lambda task: rubric_units(task.rubric)):
        old = units(before) if before is not None else units(after)
        console.print(coloured(diff_units(old, units(after))))


# -- admission ----------------------------------------------------------------------------------------


def _print_admission(console: Console, life: TaskLife) -> None:
    admission = life.admission
    if admission is not None:
        deltas = f"delta {signed(admission.delta_before)} -> {signed(admission.delta_after)}"
        console.print(Text(f"{admission.outcome}, {deltas}" + (f": {admission.why}" if admission.why else "")))
        if admission.probe is not None:
            console.print(Text("first probe", style="underline"))
            print_probe(console, admission.original, admission.probe)
        current = admission.original
        for rewrite in admission.rewrites:
            _print_rewrite(console, current, rewrite, life)
            if rewrite.outcome == "accepted" and rewrite.task is not None:
                current = rewrite.task
    _note(console, life, "admission")


def _print_rewrite(console: Console, current: Task, rewrite: Rewrite, life: TaskLife) -> None:
    console.print(Text(f"rewrite of round {rewrite.round}: {rewrite.outcome}, {rewrite.why}", style="underline"))
    if rewrite.explanation:
        console.print(Text(f"the rewriter: {rewrite.explanation}"))
    if rewrite.task is None:
        return
    if all(rewrite.task.digest != version.digest for version in life.versions):
        # It became no version, so it is shown nowhere else.
        _print_change(console, current, rewrite.task)
    for probe in rewrite.probes:
        console.print(Text("fresh probe", style="underline"))
        print_probe(console, rewrite.task, probe)


# -- cases --------------------------------------------------------------------------------------------


def _print_case(console: Console, life: CaseLife) -> None:
    case = life.case
    where = f"cycle {case.cycle}, position {case.position}, version {case.task.version}"
    console.print(Text(f"case {life.number}, {where}: gap {case.gap:.2f}", style="underline"))
    titles = {_title("exploit", case.exploit): case.exploit.answer, _title("better", case.better): case.better.answer}
    console.print(answers_table(titles))
    verdicts = {"exploit": case.exploit.grade.verdicts, "better": case.better.grade.verdicts}
    console.print(verdicts_table(case.task.rubric.criteria, verdicts))
    for line in _referee(case.ranking):
        console.print(Text(line))
    if life.patch is None:
        passed_over = "not chosen for repair: the largest gaps of its cycle went first, one of each task"
        console.print(Text("it waits for repair" if life.chosen else passed_over, style="dim"))
        return
    patch = life.patch
    leads = f"lead of the better answer {signed(patch.lead_before)} -> {signed(patch.lead_after)}"
    console.print(Text(f"patch: {patch.outcome}, {leads}" + (f"; {patch.why}" if patch.why else "")))
    accepted: list[Criterion] = []
    for found in patch.rounds:
        accepted += [check.criterion for check in found.accepted]
        rubric = Rubric(criteria=(*patch.before.rubric.criteria, *accepted))
        _print_round(console, found, patch.before.model_copy(update={"rubric": rubric}))


def _title(name: str, answered: Answered) -> str:
    return f"{name}, row {answered.row}, raw score {signed(answered.grade.raw)}"


def _referee(ranking: Ranking) -> Iterator[str]:
    yield f"referee: {ranking.why}"
    for order, tiers, notes in zip(ranking.orders, ranking.tiers, ranking.notes, strict=False):
        shown, ranked = " ".join(map(str, order)), " > ".join(f"[{' '.join(map(str, tier))}]" for tier in tiers)
        yield f"  rows shown as {shown}: {ranked}" + (f"; {notes}" if notes else "")


def _print_round(console: Console, found: PatchRound, task: Task) -> None:
    """What was minted and what became of it, then the attack on `task`, the task as patched so far."""
    console.print(Text(f"patch round {found.number}: {found.label or 'no label'}; {found.why}", style="underline"))
    if found.checks:
        columns = {"exploit": [c.exploit for c in found.checks], "better": [c.better for c in found.checks]}
        columns["honest"] = [c.honest for c in found.checks]
        if found.number > 1:
            # The exploit of a later round is the attack on the round before.
            columns["case exploit"] = [c.case_exploit for c in found.checks]
        notes = [f"{c.outcome}{f' ({c.detail})' if c.detail else ''}; {c.why}" for c in found.checks]
        console.print(verdicts_table([c.criterion for c in found.checks], columns, notes))
    if found.attack is not None:
        console.print(Text(f"attack after round {found.number}"))
        print_probe(console, task, found.attack)


# -- training -----------------------------------------------------------------------------------------


def _served(life: TaskLife) -> Iterator[str]:
    for version, rows in groupby(life.served, key=lambda row: row.version):
        yield f"version {version} served at {', '.join(f'{row.position} ({row.source})' for row in rows)}"


def _scores(life: TaskLife) -> Any:
    table = plain_table("training scores", (), ("version", "rollouts", "unscored", "mean score", "cycles"))
    for row in life.scores:
        mean = "-" if row.mean is None else f"{row.mean:.3f}"
        cycles = f"{row.first_cycle}" if row.first_cycle == row.last_cycle else f"{row.first_cycle}-{row.last_cycle}"
        table.add_row(str(row.version), str(row.rollouts), str(row.rollouts - row.scored), mean, cycles)
    return table
