"""Graded rollouts."""

import json
import time
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, case, func, insert, select, update

from rri.store import tables as t
from rri.store.database import Database
from rri.store.rows import GradeRow, Place
from rri.types import Grade, Split, digest_of

__all__ = ["GradeRows"]


class GradeRows(Database):
    """Tables grades and resumes."""

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
        return Grade.model_validate(
            {"score": row.score, "raw": row.raw, "unscored": row.unscored, "verdicts": json.loads(row.verdicts)}
        )

    def group_scores(self, split: Split, cycle: int, position: int) -> dict[int, float | None]:
        """Row -> score of the kept rollouts of one group; truncated ones have none of their own."""
        g = t.grades.c
        query = select(g.row, case((g.raw.is_(None), None), else_=g.score)).where(
            g.split == split, g.cycle == cycle, g.position == position, g.superseded.is_(False)
        )
        return {int(row): score for row, score in self._read(lambda c: c.execute(query).all())}

    async def supersede(self, cycle: int) -> int:
        """Training resumes at `cycle`: its rows and later ones are out of every window, but kept. Their number."""

        def work(c: Connection) -> int:
            done = c.execute(
                update(t.grades)
                .where(t.grades.c.split == "train", t.grades.c.cycle >= cycle, t.grades.c.superseded.is_(False))
                .values(superseded=True)
            )
            c.execute(insert(t.resumes).values(cycle=cycle, superseded=done.rowcount, at=time.time()))
            return done.rowcount

        return await self._writer.write(work)

    def score_summary(self, last: int | None = None) -> dict[str, Any]:
        """Count, mean score, unscored and cycles of the training split's rollouts, superseded ones left out."""
        g = t.grades.c
        rows = select(g.score, g.cycle).where(g.split == "train", g.superseded.is_(False)).order_by(g.id.desc())
        inner = (rows.limit(last) if last else rows).subquery()
        figures = (func.count(), func.avg(inner.c.score), func.count(inner.c.score), func.max(inner.c.cycle))
        total, mean, scored, last_cycle = self._read(lambda c: c.execute(select(*figures).select_from(inner)).one())
        return {
            "rollouts": int(total),
            "mean_score": mean,
            "unscored": int(total) - int(scored),
            "cycles": 0 if last_cycle is None else int(last_cycle) + 1,
        }

    def cycle_scores(self) -> list[tuple[int, int, float | None]]:
        """(cycle, rollouts, mean score) of the training split in order."""
        g = t.grades.c
        query = (
            select(g.cycle, func.count(), func.avg(g.score))
            .where(g.split == "train", g.superseded.is_(False))
            .group_by(g.cycle)
            .order_by(g.cycle)
        )
        return [(int(cycle), int(n), mean) for cycle, n, mean in self._read(lambda c: c.execute(query).all())]
