"""Small pieces of evidence, made by hand: cases, patches, probes, grades."""

from typing import Any

from rri.cases import (
    Answered,
    Check,
    CheckOutcome,
    ExploitCase,
    Patch,
    PatchOutcome,
    PatchRound,
    Ranking,
    RankingOutcome,
)
from rri.evidence import Admission, AdmissionOutcome, Probe, ProbeReason
from rri.store import GradeRow, Place
from rri.types import Criterion, Grade, Split, Task, Verdict
from tests.rigs import make_task

__all__ = ["admitted", "attack", "case_of", "check", "graded", "numbered", "patch_of", "ranking"]

MET = Verdict(outcome="met")


def numbered(number: int, version: int = 1, *points: float) -> Task:
    """Task `number` in a version of its own content."""
    task = make_task(*(points or (8, 8, -6)), task_id=f"{number:06}-abc")
    criteria = [c.model_copy(update={"text": f"{c.text}, version {version} of {number}"}) for c in task.rubric.criteria]
    rubric = task.rubric.model_copy(update={"criteria": tuple(criteria)})
    return task.model_copy(update={"version": version, "rubric": rubric})


def attack(*reasons: ProbeReason, status: Any = "measured", delta: float | None = 0.5) -> Probe:
    """A probe that found `reasons`."""
    grade = Grade(verdicts=(MET, MET, MET), score=0.5, raw=0.5)
    if status != "measured":
        return Probe(status=status, exploit="Consider it.", honest="Forty-two.", why="no figure")
    return Probe(
        status=status,
        exploit="Consider all matters.",
        honest="Forty-two.",
        exploit_grade=grade,
        honest_grade=grade,
        delta=delta,
        reasons=reasons,
    )


def admitted(before: Task, after: Task | None = None, outcome: AdmissionOutcome = "passed", **fields: Any) -> Admission:
    return Admission(original=before, task=after or before, outcome=outcome, **fields)


def ranking(task: Task, cycle: int = 0, position: int = 0, outcome: RankingOutcome = "case") -> Ranking:
    return Ranking(cycle=cycle, position=position, task_id=task.task_id, version=task.version, outcome=outcome)


def case_of(task: Task, gap: float = 0.5, cycle: int = 0, position: int = 0) -> ExploitCase:
    def answered(row: int, raw: float) -> Answered:
        verdicts = tuple(MET for _ in task.rubric.criteria)
        return Answered(row=row, answer=f"answer {row}", grade=Grade(verdicts=verdicts, score=raw, raw=raw))

    return ExploitCase(
        cycle=cycle,
        position=position,
        task=task,
        exploit=answered(0, gap),
        better=answered(1, 0.0),
        gap=gap,
        ranking=ranking(task, cycle, position),
    )


def check(points: float, outcome: CheckOutcome = "accepted", number: int = 0) -> Check:
    text = f"States the notice period number {number} in days" if points > 0 else f"Claims that notice {number} is void"
    return Check(criterion=Criterion(text=text, points=points), why="it separates", outcome=outcome)


def patch_of(
    number: int, before: Task, *rounds: PatchRound, outcome: PatchOutcome | None = None, **fields: Any
) -> Patch:
    """What became of case `number`: a new version where a check was accepted."""
    accepted = [c.criterion for r in rounds for c in r.accepted]
    rubric = before.rubric.model_copy(update={"criteria": (*before.rubric.criteria, *accepted)})
    after = before.model_copy(update={"version": before.version + 1, "rubric": rubric}) if accepted else before
    became: PatchOutcome = outcome or ("patched" if accepted else "unpatched")
    return Patch(case=number, before=before, task=after, outcome=became, rounds=rounds, **fields)


def graded(
    task: Task, cycle: int, row: int, score: float | None, *, position: int = 0, split: Split = "train"
) -> GradeRow:
    grade = Grade(verdicts=(), score=score, raw=score, unscored="" if score is not None else "the judge failed")
    return GradeRow(Place(split, cycle, position, row), task.task_id, task.version, f"answer {row}", True, grade)
