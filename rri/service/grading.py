"""Grades rollouts: each one once, whatever is lost on the way (DESIGN, seam 2)."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Sequence

from programs.grader import Grader
from rri.client import GradedRow, GradeRequest, GradeResponse, Row
from rri.config import GradingConfig
from rri.errors import ModelError, ServiceRefused
from rri.pool import Pool
from rri.store import GradeRow, Place, Store
from rri.types import Grade, Task

__all__ = ["RolloutGrader"]

Key = tuple[Place, str]


class RolloutGrader:
    """Turns grade requests into kept grades. Lives on the service's loop.

    The same rollout sent again, while it is graded or later, gets the same grade without new calls.

    Args:
        grader: votes and scores.
        store, pool: where grades go, and what was served where.
        config: the limit of unscored answers in a row.
        judge_truncated: judge answers that were cut at the token limit.
    """

    def __init__(
        self, grader: Grader, store: Store, pool: Pool, config: GradingConfig, *, judge_truncated: bool
    ) -> None:
        self.grader = grader
        self.store = store
        self.pool = pool
        self.config = config
        self.judge_truncated = judge_truncated
        self.graded = 0
        self.unscored = 0
        self.truncated = 0
        self.in_a_row = 0
        self.last_error = ""
        self._under_way: dict[Key, asyncio.Task[Grade]] = {}

    async def grade(self, request: GradeRequest) -> GradeResponse:
        """Scores in the order of the rows.

        Raises:
            ServiceRefused: a position was never served.
            BudgetExhausted: a hard limit is reached.
        """
        started = time.monotonic()
        tasks = {row.position: self._task(row.position) for row in request.rows}
        judged = {i for i, row in enumerate(request.rows) if row.finished or self.judge_truncated}
        grades: dict[int, Grade] = {}
        jobs = {i: self._once(request, row, tasks[row.position]) for i, row in enumerate(request.rows) if i in judged}
        for index, job in jobs.items():
            # Shielded: a client that hangs up does not throw paid verdicts away.
            grades[index] = await asyncio.shield(job)
        grades |= await self._floored(request, tasks, grades)
        rows = [_graded(row, tasks[row.position], grades[i]) for i, row in enumerate(request.rows)]
        return GradeResponse(rows=tuple(rows), seconds=time.monotonic() - started)

    def _task(self, position: int) -> Task:
        served = self.pool.row(position)
        task = self.store.task(served.task_id, served.version) if served else None
        if task is None:
            raise ServiceRefused(f"position {position} was never served", "Ask for /v1/served/{position} first")
        return task

    def _once(self, request: GradeRequest, row: Row, task: Task) -> "asyncio.Task[Grade]":
        place = Place(request.split, request.cycle, row.position, row.row)
        key = (place, row.answer)
        job = self._under_way.get(key)
        if job is None:
            job = self._under_way[key] = asyncio.create_task(self._grade(place, row, task))
            job.add_done_callback(lambda _: self._under_way.pop(key, None))
        return job

    async def _grade(self, place: Place, row: Row, task: Task) -> Grade:
        known = self.store.find_grade(place, row.answer)
        if known is not None:
            return known
        grade = await self.grader.grade(task, row.answer, training=place.split == "train")
        await self.store.add_grades([GradeRow(place, task.task_id, task.version, row.answer, row.finished, grade)])
        self._count(grade)
        return grade

    def _count(self, grade: Grade) -> None:
        self.graded += 1
        if grade.score is not None:
            self.in_a_row = 0
            return
        self.unscored += 1
        self.in_a_row += 1
        self.last_error = grade.unscored

    def check(self) -> None:
        """Raises:
        ModelError: the judge has failed on too many answers in a row.
        """
        limit = self.config.unscored_in_a_row
        if self.in_a_row >= limit:
            raise ModelError(f"the judge failed on {self.in_a_row} answers in a row; the last one: {self.last_error}")

    async def _floored(
        self, request: GradeRequest, tasks: dict[int, Task], grades: dict[int, Grade]
    ) -> dict[int, Grade]:
        """Grades of the truncated rows: the lower of 0 and the lowest score of the group in this request."""
        lowest: dict[int, float] = defaultdict(float)
        for index, grade in grades.items():
            if grade.score is not None:
                position = request.rows[index].position
                lowest[position] = min(lowest[position], grade.score)
        floored: dict[int, Grade] = {}
        rows: list[GradeRow] = []
        for index, row in enumerate(request.rows):
            if index in grades:
                continue
            place = Place(request.split, request.cycle, row.position, row.row)
            known = self.store.find_grade(place, row.answer)
            # No verdicts and no raw score: what a kept row without them and `finished` false means.
            grade = known or Grade(verdicts=(), score=lowest[row.position], raw=None)
            if known is None:
                task = tasks[row.position]
                rows.append(GradeRow(place, task.task_id, task.version, row.answer, row.finished, grade))
                self.truncated += 1
            floored[index] = grade
        await self.store.add_grades(rows)
        return floored


def _graded(row: Row, task: Task, grade: Grade) -> GradedRow:
    outcomes: Sequence[str] = [v.outcome for v in grade.verdicts]
    return GradedRow(
        position=row.position,
        row=row.row,
        task_id=task.task_id,
        version=task.version,
        score=grade.score,
        raw=grade.raw,
        unscored=grade.unscored,
        met=outcomes.count("met"),
        unmet=outcomes.count("unmet"),
        unknown=outcomes.count("unknown"),
    )
