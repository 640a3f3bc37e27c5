"""Graded validation rollouts, and what the run may be trained on, to keep the two apart."""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import case, func, select

from rri.store import tables as t
from rri.store.database import Database
from rri.types import Task

__all__ = ["ValidationRow", "ValidationRows"]


@dataclass(frozen=True, slots=True)
class ValidationRow:
    """Validation rollouts after one cycle. `mean` is over the scored ones, None without any."""

    cycle: int
    rollouts: int
    scored: int
    mean: float | None
    truncated: int


class ValidationRows(Database):
    """The validation split of table grades."""

    def validation_rows(self) -> list[ValidationRow]:
        """Validation rollouts by cycle in order, superseded ones left out."""
        g = t.grades.c
        cut = func.sum(case((g.finished.is_(False), 1), else_=0))
        query = (
            select(g.cycle, func.count(), func.count(g.score), func.avg(g.score), cut)
            .where(g.split == "validation", g.superseded.is_(False))
            .group_by(g.cycle)
            .order_by(g.cycle)
        )
        return [ValidationRow(*row) for row in self._read(lambda c: c.execute(query).all())]

    def trainable(self) -> Iterator[Task]:
        """Every version of every task that may be served, refused ones and drafts left out."""
        a, v = t.admissions.c, t.task_versions.c
        admitted = select(a.task_id).where(a.outcome != "refused")
        query = select(v.body).where(v.task_id.in_(admitted)).order_by(v.seq)
        for body in self._read(lambda c: c.scalars(query).all()):
            yield Task.model_validate_json(body)
