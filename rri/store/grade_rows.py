"""Graded rollouts."""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, case, func, insert, select, update

from rri.cases import Answered, GradedCase
from rri.store import tables as t
from rri.store.database import Database
from rri.store.rows import GradeRow, Place
from rri.store.running import RunningSums
from rri.types import Grade, Split, Task, digest_of

__all__ = ["GradeRows", "Rollout", "VersionScores"]


@dataclass(frozen=True, slots=True)
class VersionScores:
    """Training rollouts of one version of a task. `mean` is over the scored ones, None without any."""

    task_id: str
    version: int
    rollouts: int
    scored: int
    mean: float | None
    first_cycle: int
    last_cycle: int


@dataclass(frozen=True, slots=True)
class Rollout:
    """One training rollout, judged or cut. `score` is what it trained with, None where it is unscored."""

    position: int
    row: int
    task_id: str
    version: int
    answer: str
    finished: bool
    score: float | None


# Written so that no index seems to help: rows are wanted from the end of the table.
_TRAINED = (func.coalesce(t.grades.c.split, "") == "train", t.grades.c.superseded.is_(False))


class GradeRows(Database):
    """Tables grades and resumes."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        g = t.grades.c
        sums = (func.count(), func.count(g.score), func.sum(g.score))
        self._cycles = RunningSums(g.id, g.cycle, sums, _TRAINED)

    async def add_grades(self, rows: Sequence[GradeRow]) -> None:
        """Keep graded rollouts, all or none."""
        now = time.time()
        values = [
            {
                "split": r.place.split,
                "cycle": r.place.cycle,
                "position": r.place.position,
                "row": r.place.row,
                "task_id": r.task_id,
                "version": r.version,
                "answer": r.answer,
                "answer_digest": digest_of(r.answer),
                "finished": r.finished,
                "score": r.grade.score,
                "raw": r.grade.raw,
                "unscored": r.grade.unscored,
                "verdicts": json.dumps([v.model_dump() for v in r.grade.verdicts]),
                "superseded": False,
                "at": now,
            }
            for r in rows
        ]
        if values:
            await self._writer.write(lambda c: c.execute(insert(t.grades), values))

    def find_grade(self, place: Place, answer: str) -> Grade | None:
        """The grade that this very rollout has already, so that a repeated request is not judged again."""
        g = t.grades.c
        query = select(g.score, g.raw, g.unscored, g.verdicts).where(
            g.split == place.split,
            g.cycle == place.cycle,
            g.position == place.position,
            g.row == place.row,
            g.answer_digest == digest_of(answer),
            g.superseded.is_(False),
        )
        row = self._read(lambda c: c.execute(query).first())
        if row is None:
            return None
        return _grade(row)

    def group_scores(self, split: Split, cycle: int, position: int) -> dict[int, float | None]:
        """Row -> score of the kept rollouts of one group; truncated ones have none of their own."""
        g = t.grades.c
        query = select(g.row, case((g.raw.is_(None), None), else_=g.score)).where(
            g.split == split, g.cycle == cycle, g.position == position, g.superseded.is_(False)
        )
        return {int(row): score for row, score in self._read(lambda c: c.execute(query).all())}

    def rollouts(self, cycle: int) -> list[Rollout]:
        """All rollouts of a training cycle, superseded ones left out, by position and row."""
        g = t.grades.c
        query = (
            select(g.position, g.row, g.task_id, g.version, g.answer, g.finished, g.score)
            .where(g.split == "train", g.cycle == cycle, g.superseded.is_(False))
            .order_by(g.position, g.row)
        )
        return [Rollout(*row) for row in self._read(lambda c: c.execute(query).all())]

    def groups(self, cycle: int) -> dict[int, tuple[str, int, list[Answered]]]:
        """Position -> (task id, version, judged and scored rollouts in row order) of a training cycle."""
        g = t.grades.c
        query = (
            select(g.position, g.task_id, g.version, g.row, g.answer, g.score, g.raw, g.unscored, g.verdicts)
            .where(g.split == "train", g.cycle == cycle, g.superseded.is_(False))
            .where(g.raw.is_not(None))
            .order_by(g.position, g.row)
        )
        found: dict[int, tuple[str, int, list[Answered]]] = {}
        for row in self._read(lambda c: c.execute(query).all()):
            answers = found.setdefault(int(row.position), (str(row.task_id), int(row.version), []))[2]
            answers.append(Answered(row=row.row, answer=row.answer, grade=_grade(row)))
        return found

    def scored_since(self, cycle: int) -> list[tuple[int, float]]:
        """(number, training score) of the scored training rollouts of cycle `cycle` and later ones."""
        g = t.grades.c
        query = select(g.id, g.score).where(
            g.split == "train", g.cycle >= cycle, g.superseded.is_(False), g.score.is_not(None)
        )
        return [(int(i), float(score)) for i, score in self._read(lambda c: c.execute(query.order_by(g.id)).all())]

    def graded_cases(self, numbers: Sequence[int]) -> list[GradedCase]:
        """Rollouts by number, in that order, each with the version of the task that graded it."""
        g, v = t.grades.c, t.task_versions.c
        same = (v.task_id == g.task_id) & (v.version == g.version)
        query = select(t.grades, v.body).join_from(t.grades, t.task_versions, same).where(g.id.in_(numbers))
        found = {int(row.id): _graded_case(row) for row in self._read(lambda c: c.execute(query).all())}
        return [found[number] for number in numbers]

    def task_scores(self) -> list[tuple[str, int, float]]:
        """(task id, version, training score) of every scored training rollout, oldest first."""
        g = t.grades.c
        query = (
            select(g.task_id, g.version, g.score)
            .where(g.split == "train", g.superseded.is_(False), g.score.is_not(None))
            .order_by(g.id)
        )
        return [(str(i), int(v), float(s)) for i, v, s in self._read(lambda c: c.execute(query).all())]

    def version_scores(self, task_id: str = "") -> list[VersionScores]:
        """What the rollouts of each version earned in training, superseded ones left out, in order of first grading.

        With `task_id` of that task alone.
        """
        g = t.grades.c
        figures = (func.count(), func.count(g.score), func.avg(g.score), func.min(g.cycle), func.max(g.cycle))
        query = (
            select(g.task_id, g.version, *figures)
            .where(g.split == "train", g.superseded.is_(False))
            .group_by(g.task_id, g.version)
            .order_by(func.min(g.id))
        )
        if task_id:
            query = query.where(g.task_id == task_id)
        return [VersionScores(*row) for row in self._read(lambda c: c.execute(query).all())]

    async def supersede(self, cycle: int, *, validation_from: int | None = None) -> int:
        """Training resumes at `cycle`: its rows and later ones are out of every window, but kept. Their number.

        Args:
            cycle: of training rows.
            validation_from: the same for validation rows; `cycle` when None.
        """
        g, first = t.grades.c, cycle if validation_from is None else validation_from
        late = ((g.split == "train") & (g.cycle >= cycle)) | ((g.split == "validation") & (g.cycle >= first))

        def work(c: Connection) -> int:
            done = c.execute(update(t.grades).where(late, g.superseded.is_(False)).values(superseded=True))
            c.execute(insert(t.resumes).values(cycle=cycle, superseded=done.rowcount, at=time.time()))
            return done.rowcount

        return await self._writer.write(work)

    def score_summary(self, last: int | None = None) -> dict[str, Any]:
        """Count, mean score, unscored and cycles of the training split's rollouts, superseded ones left out; with
        `last` of the latest ones.
        """
        if last is None:
            sums = self._by_cycle()
            total, scored, score = (sum(column) for column in zip(*sums.values(), strict=True)) if sums else (0, 0, 0.0)
            mean, last_cycle = score / scored if scored else None, max(sums, default=None)
        else:
            g = t.grades.c
            inner = select(g.score, g.cycle).where(*_TRAINED).order_by(g.id.desc()).limit(last).subquery()
            figures = (func.count(), func.avg(inner.c.score), func.count(inner.c.score), func.max(inner.c.cycle))
            total, mean, scored, last_cycle = self._read(lambda c: c.execute(select(*figures).select_from(inner)).one())
        return {
            "rollouts": int(total),
            "mean_score": mean,
            "unscored": int(total) - int(scored),
            "cycles": 0 if last_cycle is None else int(last_cycle) + 1,
        }

    def scored_by_cycle(self) -> list[tuple[int, int, float]]:
        """(cycle, scored rollouts, their mean score) of the training split in order."""
        sums = sorted(self._by_cycle().items())
        return [(cycle, int(scored), score / scored) for cycle, (_, scored, score) in sums if scored]

    def cycle_scores(self) -> list[tuple[int, int, float | None]]:
        """(cycle, rollouts, mean score) of the training split in order."""
        sums = sorted(self._by_cycle().items())
        return [(cycle, int(total), score / scored if scored else None) for cycle, (total, scored, score) in sums]

    def _by_cycle(self) -> dict[int, list[float]]:
        """Cycle -> rollouts, scored ones, sum of scores."""
        resumed = select(func.max(t.resumes.c.id)).scalar_subquery()
        return self._read(lambda c: self._cycles.read(c, resumed))


def _grade(row: Any) -> Grade:
    return Grade.model_validate(
        {"score": row.score, "raw": row.raw, "unscored": row.unscored, "verdicts": json.loads(row.verdicts)}
    )


def _graded_case(row: Any) -> GradedCase:
    return GradedCase(
        cycle=row.cycle,
        position=row.position,
        row=row.row,
        task=Task.model_validate_json(row.body),
        answer=row.answer,
        # Where truncated answers are judged as they are, they are answers like any other.
        truncated=not row.finished and row.raw is None,
        grade=_grade(row),
        score=row.score,
    )
